"""High-water marks: how far a log went, kept beside it, so that a loss shows.

A server that finds its files damaged when it starts goes on with what it can read: the log then
ends earlier than it did, or has a gap, and nothing in it says so. So a mark stands outside: up to
which sequence a shard went, and how many records it held then. When a store opens, and before it
reads or appends anything whenever the connection was lost, the log is held against it.

Only a purge takes records away, so every purge announces itself in the mark first. A mark is
written behind what is appended and may be lost at any time: it proves a loss, never that there is
none.

A backup of the whole server brings its marks back, too. What a store was told itself it still
knows then: up to which sequence its appends were acked, and where the log ended when it looked
last.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.errors import (
    AppendFailed,
    ConfigurationError,
    FoldlogError,
    LogCorrupt,
    LogRewound,
    LogUnavailable,
)
from foldlog.log.extent import Extent
from foldlog.log.led import led
from foldlog.log.marks import Mark, Marks, loss
from foldlog.log.port import Append, Log, Record, StreamInfo
from foldlog.log.relay import Relay
from foldlog.log.together import together
from foldlog.subjects import Branch, Subject

MARK_SECONDS: Final = 10.0
"""How far a mark may lag behind what a store appends."""

PURGE_SECONDS: Final = 60.0
"""A purge that was announced longer ago has ended, whatever became of who asked for it."""

_UNSEEN: Final = 5
"""How often a mark that cannot be replaced reads as none before it is taken for one that this
account may not read. A replica that lags shows it after a moment."""

_log: Final = logging.getLogger("foldlog")


class _Lost(NamedTuple):
    """A shard as it was found, and the mark of that revision with which it was compared."""

    found: StreamInfo
    mark: Mark
    revision: int
    error: LogRewound | LogCorrupt


class Watermarked(Relay):
    """A log that is held against its marks before it is used. It owns the log below.

    Every read of a subject raises what `loss` finds, until `accept`. A scan does not: it is how
    what is left is looked at.

    Args:
        extents: by shard, up to where the log below is known to go; also learns that here.
    """

    def __init__(
        self,
        below: Log,
        marks: Marks,
        *,
        extents: Sequence[Extent] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(below)
        self._marks = marks
        if extents is None:
            extents = [Extent() for _ in range(below.namespace.shards)]
        self._extents = extents
        self._clock = clock
        self._proven: int | None = None
        self._lost_before = set[tuple[str, int, str]]()
        # Those who append ask again sooner than those who read: they must not wait for them.
        self._reading, self._appending = asyncio.Lock(), asyncio.Lock()
        self._grown = False
        self._due: asyncio.TimerHandle | None = None
        self._marking: asyncio.Task[None] | None = None

    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[Any, Any, list[int]]:
        """See the port."""
        if not self._grown:
            self._grown = True
            self._due = asyncio.get_running_loop().call_later(MARK_SECONDS, self._mark_behind)
        return self.below.append(appends, atomic=atomic)

    def read(
        self, subject: Subject, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        """See the port. Also raises LogRewound."""
        if self._is_proven:
            return self.below.read(subject, after=after, strong=strong)
        return self._read(subject, after, strong)

    async def _read(
        self, subject: Subject, after: int, strong: bool
    ) -> AsyncGenerator[list[Record]]:
        await self.prove()
        async with aclosing(self.below.read(subject, after=after, strong=strong)) as pages:
            async for records in pages:
                yield records

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        """See the port. Also raises LogRewound."""
        await self.prove()
        return await self.below.last(subject, strong=strong, upto=upto)

    async def purge(self, subject: Subject, *, before: int) -> None:
        """See the port."""
        token = await self._announce(subject.shard)
        await self.below.purge(subject, before=before)
        await self._purged(subject.shard, token)

    async def purge_branch(self, branch: Branch, *, before: int) -> None:
        """See the port."""
        token = await self._announce(branch.shard)
        await self.below.purge_branch(branch, before=before)
        await self._purged(branch.shard, token)

    async def truncate(self, shard: int, *, before: int) -> None:
        """See the port."""
        token = await self._announce(shard)
        await self.below.truncate(shard, before=before)
        await self._purged(shard, token)

    async def prove(self) -> None:
        """Hold every shard against its mark, and against what is known of it here.

        Unless that was done since the connection was lost.
        """
        for lost in await self._lost(self._reading):
            raise lost

    async def look(self) -> None:
        """As `prove`, but what is found is left for the reads to raise; appends may go on."""
        try:
            lost = await self._lost(self._reading)
        except LogUnavailable as error:
            _log.info("the log was not looked at: %s", error)
            return
        self._lost_before = set(map(_what, lost))
        for each in lost:
            _log.info("the log was looked at: %s", each)

    async def prove_for_appends(self) -> None:
        """As `prove`, for who appends: a gap is for reads to raise, and so is what `look` found.

        What is appended to a log that ends too early takes sequences that others have read.
        """
        for error in await self._lost(self._appending):
            if isinstance(error, LogRewound) and _what(error) not in self._lost_before:
                raise error
            _log.info("the log was looked at: %s", error)

    async def accept(self) -> None:
        """See the port. Errors as `Marks.put_mark`."""
        epoch = self.below.epoch
        for shard in range(self.namespace.shards):
            await self._accept(shard)
        self._proven = epoch

    async def close(self) -> None:
        """Mark what was appended, then close the log below. Idempotent."""
        if self._due is not None:
            self._due.cancel()
        try:
            if self._marking is not None:
                self._marking.cancel()
                await asyncio.wait([self._marking])
            if self._grown:
                await self._mark_all()
        finally:
            await self.below.close()

    @property
    def _is_proven(self) -> bool:
        return self._proven == self.below.epoch

    def _mark_behind(self) -> None:
        if self._marking is not None and not self._marking.done():
            self._due = asyncio.get_running_loop().call_later(MARK_SECONDS, self._mark_behind)
            return
        self._marking = asyncio.get_running_loop().create_task(
            self._mark_all(), name="foldlog watermark"
        )

    async def _mark_all(self) -> None:
        """Mark every shard; where that is not possible, the marks there are stay."""
        self._grown = False
        try:
            for shard in range(self.namespace.shards):
                await self._remark(shard)
        except FoldlogError as error:
            _log.info("no high-water mark: %s", error)

    async def _lost(self, asking: asyncio.Lock) -> list[LogRewound | LogCorrupt]:
        """What the shards have lost, an error each; `asking` is held by who asks for others, too.

        Raises:
            LogUnavailable: nobody says.
        """
        if self._is_proven:
            return []
        async with asking:
            epoch = self.below.epoch
            if self._proven == epoch:
                return []
            confirmed = set[int]()
            while not await self._is_certain(losses := await self._losses(), confirmed):
                pass
            for lost in losses:
                if isinstance(lost.error, LogRewound) and lost.mark.ended is None:
                    await self._keep(lost, lost.error.sequence)
            if not losses:
                self._proven = epoch
            return [lost.error for lost in losses]

    async def _losses(self) -> list[_Lost]:
        """What seems to be lost: see `_is_certain`."""
        # What is known first, then the marks: what is appended meanwhile only adds to the log.
        known = [extent.seq for extent in self._extents]
        marks = await together(self._mark(shard) for shard in range(self.namespace.shards))
        losses = list[_Lost]()
        for found in await led(self.below):
            mark, revision = marks[found.shard]
            error = loss(mark, found, known[found.shard])
            if error is None:
                self._extents[found.shard].reaches(found.last_seq)
            else:
                losses.append(_Lost(found, mark, revision, error))
        return losses

    async def _is_certain(self, losses: Sequence[_Lost], confirmed: set[int]) -> bool:
        """Whether nothing else explains it; else it is to be looked at anew.

        `confirmed`: shards whose leader was confirmed before that look; those that are now are
        added.
        """
        for lost in losses:
            shard = lost.found.shard
            _, revision = await self._mark(shard)
            if lost.revision and not revision:
                raise LogUnavailable(f"the mark of {lost.found.name} is not to be seen any more")
            if revision != lost.revision:
                return False  # a purge that began in between looks like this
            if lost.found.replicas > 1 and shard not in confirmed:
                await self.below.barrier(shard)  # a deposed leader may have told
                confirmed.add(shard)
                return False
        return True

    async def _keep(self, lost: _Lost, end: int) -> None:
        """Have the mark say that the shard went to `end` and was rewound; appends may hide it."""
        try:
            ended = msgspec.structs.replace(lost.mark, seq=end, ended=lost.found.last_seq)
            await self._put(lost.found.shard, ended, lost.revision)
        except FoldlogError as error:
            _log.info("no high-water mark: %s", error)

    async def _accept(self, shard: int) -> None:
        extent = self._extents[shard]
        while True:
            known = extent.seq
            mark, revision = await self._mark(shard)
            found = (await led(self.below))[shard]
            now = Mark(found.last_seq, found.messages, self._live(mark))
            if not revision or now == mark or await self._put(shard, now, revision):
                if found.last_seq < known:
                    extent.seq = found.last_seq
                return

    async def _remark(self, shard: int) -> None:
        known = self._extents[shard].seq
        mark, revision = await self._mark(shard)
        if self._live(mark):
            return  # whoever purges will do it
        found = (await led(self.below))[shard]
        if loss(mark, found, known) is not None:
            return  # the evidence stays
        now = Mark(found.last_seq, found.messages)
        if now != mark:  # if it is another by now, somebody else has just done it
            await self._put(shard, now, revision)

    async def _announce(self, shard: int) -> str | None:
        """Return the token of a purge; None where there can be no mark, and now is none."""
        token, unseen = secrets.token_hex(6), 0
        try:
            while unseen < _UNSEEN:
                mark, revision = await self._mark(shard)
                purging = {**mark.purging, token: self._clock() + PURGE_SECONDS}
                announced = msgspec.structs.replace(mark, purging=purging)
                if await self._put(shard, announced, revision):
                    return token
                unseen += not revision
        except (AppendFailed, ConfigurationError) as error:
            # Perhaps there is no space left, which a purge makes.
            _log.info("no high-water mark: %s", error)
        await self._marks.drop_mark(shard)  # better no mark than a wrong one
        return None

    async def _purged(self, shard: int, token: str | None) -> None:
        if token is None:  # somebody else may have made one meanwhile
            await self._marks.drop_mark(shard)
            return
        while True:
            mark, revision = await self._mark(shard)
            if not revision:
                return  # it was dropped
            # A token that is gone was taken for a dead one, and the purge was counted half.
            purging = self._live(mark, but=token)
            if purging:  # the last of them counts anew
                ended = msgspec.structs.replace(mark, purging=purging)
            else:
                found = (await led(self.below))[shard]
                if isinstance(loss(mark, found), LogRewound):
                    ended = msgspec.structs.replace(mark, purging={})
                else:
                    ended = Mark(found.last_seq, found.messages)
            if await self._put(shard, ended, revision):
                return

    def _live(self, mark: Mark, *, but: str = "") -> dict[str, float]:
        """The purges of a mark that may be under way."""
        now = self._clock()
        return {token: end for token, end in mark.purging.items() if token != but and end > now}

    async def _put(self, shard: int, mark: Mark, revision: int) -> bool:
        return await self._marks.put_mark(shard, msgspec.json.encode(mark), revision)

    async def _mark(self, shard: int) -> tuple[Mark, int]:
        data, revision = await self._marks.mark(shard)
        try:
            return msgspec.json.decode(data, type=Mark) if data else Mark(), revision
        except msgspec.MsgspecError:
            return Mark(), revision  # nothing is known; the next mark replaces it


def _what(lost: LogRewound | LogCorrupt) -> tuple[str, int, str]:
    """What of the log is gone: the same as long as nothing else is."""
    return lost.stream, lost.sequence, lost.reason
