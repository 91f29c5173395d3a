"""High-water marks: how far a log went, kept beside it, so that a loss shows.

A server that finds its files damaged when it starts goes on with what it can read: the log then
ends earlier than it did, or has a gap, and nothing in it says so. So a mark stands outside: up to
which sequence a shard went, and how many records it held then. When a store opens, and before the
first read whenever the connection was lost, the log is held against it.

Only a purge takes records away, so every purge announces itself in the mark first. A mark is
written behind what is appended and may be lost at any time: it proves a loss, never that there is
none.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any, Final, Protocol

import msgspec

from foldlog.errors import (
    AppendFailed,
    ConfigurationError,
    FoldlogError,
    LogCorrupt,
    LogRewound,
    LogUnavailable,
)
from foldlog.log.port import Append, Log, Record, StreamInfo
from foldlog.log.relay import Relay
from foldlog.subjects import Subject

MARK_SECONDS: Final = 10.0
"""How far a mark may lag behind what a store appends."""

PURGE_SECONDS: Final = 60.0
"""A purge that was announced longer ago has ended, whatever became of who asked for it."""

_log: Final = logging.getLogger("foldlog")


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a shard held: `messages` records up to `seq`.

    `purging`: until when (Unix seconds) purges may be under way, by a token of each. While there
    is one, and until somebody marks anew, `messages` tells nothing. `ended`: where the shard was
    found to end too early; what is appended since would hide it.
    """

    seq: int = 0
    messages: int = 0
    purging: dict[str, float] = {}
    ended: int | None = None


class Marks(Protocol):
    """Where the marks are kept: one a shard."""

    async def mark(self, shard: int) -> tuple[bytes | None, int]:
        """Return a shard's mark and its revision; None and 0 where there is none, or none to see.

        Raises:
            LogUnavailable: nobody answered in time.
        """
        ...

    async def put_mark(self, shard: int, data: bytes, revision: int) -> bool:
        """Replace the mark of that revision; return whether it was that.

        Raises:
            AppendFailed, ConfigurationError: refused. LogUnavailable: it may be stored or not.
        """
        ...

    async def drop_mark(self, shard: int) -> None:
        """Remove a shard's mark; fine if there is none.

        Raises:
            LogUnavailable: it may still be there.
        """
        ...


def loss(mark: Mark, found: StreamInfo) -> FoldlogError | None:
    """What a shard as it is now has lost since it was marked: an error to raise, or None."""
    if mark.ended is not None:
        return LogRewound(found.name, mark.seq, f"it ended at {mark.ended}")
    if found.last_seq < mark.seq:
        return LogRewound(found.name, mark.seq, f"it ends at {found.last_seq}")
    # With replicas it is they who make good what one of them has lost.
    if mark.purging or found.replicas > 1:
        return None
    missing = mark.messages + found.last_seq - mark.seq - found.messages
    if missing <= 0:
        return None
    return LogCorrupt(
        found.name,
        mark.seq,
        f"{missing} records up to here are missing; a rebuild accepts the log without them",
    )


class Watermarked(Relay):
    """A log that is held against its marks before it is read. It owns the log below.

    Every read of a subject raises what `loss` finds, until `accept`. A scan does not: it is how
    what is left is looked at.
    """

    def __init__(self, below: Log, marks: Marks, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(below)
        self._marks = marks
        self._clock = clock
        self._proven: int | None = None
        self._proving = asyncio.Lock()
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

    async def truncate(self, shard: int, *, before: int) -> None:
        """See the port."""
        token = await self._announce(shard)
        await self.below.truncate(shard, before=before)
        await self._purged(shard, token)

    async def prove(self) -> None:
        """Hold every shard against its mark, unless that was done since the connection was lost."""
        if self._is_proven:
            return
        async with self._proving:
            epoch = self.below.epoch
            if self._proven == epoch:
                return
            while (lost := await self._loss()) is not None:
                found, revision, error = lost
                mark, again = await self._mark(found.shard)
                if again != revision:
                    continue  # a purge that began in between looks like this
                if isinstance(error, LogRewound) and mark.ended is None:
                    await self._keep(found, mark, revision)
                raise error
            self._proven = epoch

    async def look(self) -> None:
        """As `prove`, but what is found is left for the reads to raise."""
        try:
            await self.prove()
        except (LogRewound, LogCorrupt, LogUnavailable) as error:
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

    async def _loss(self) -> tuple[StreamInfo, int, FoldlogError] | None:
        """The first shard that has lost something, its mark's revision, and what is to be raised.

        If the mark is of another revision by now, a purge may be what took it.
        """
        # The marks first: what is appended meanwhile only adds to the log.
        marks = [await self._mark(shard) for shard in range(self.namespace.shards)]
        if any(mark.seq for mark, _ in marks):
            for found in await self.below.streams():
                mark, revision = marks[found.shard]
                if (error := loss(mark, found)) is not None:
                    return found, revision, error
        return None

    async def _keep(self, found: StreamInfo, mark: Mark, revision: int) -> None:
        """Have the mark say that the shard was rewound; the next append may hide it."""
        try:
            ended = msgspec.structs.replace(mark, ended=found.last_seq)
            await self._put(found.shard, ended, revision)
        except FoldlogError as error:
            _log.info("no high-water mark: %s", error)

    async def _accept(self, shard: int) -> None:
        while True:
            mark, revision = await self._mark(shard)
            found = (await self.below.streams())[shard]
            now = Mark(found.last_seq, found.messages, self._live(mark))
            if not revision or now == mark or await self._put(shard, now, revision):
                return

    async def _remark(self, shard: int) -> None:
        mark, revision = await self._mark(shard)
        if self._live(mark):
            return  # whoever purges will do it
        found = (await self.below.streams())[shard]
        if loss(mark, found) is not None:
            return  # the evidence stays
        now = Mark(found.last_seq, found.messages)
        if now != mark:  # if it is another by now, somebody else has just done it
            await self._put(shard, now, revision)

    async def _announce(self, shard: int) -> str:
        token = secrets.token_hex(6)
        try:
            while True:
                mark, revision = await self._mark(shard)
                purging = {**mark.purging, token: self._clock() + PURGE_SECONDS}
                announced = msgspec.structs.replace(mark, purging=purging)
                if await self._put(shard, announced, revision):
                    return token
        except (AppendFailed, ConfigurationError):
            # Perhaps there is no space left, which a purge makes: better no mark than a wrong one.
            await self._marks.drop_mark(shard)
            return token

    async def _purged(self, shard: int, token: str) -> None:
        while True:
            mark, revision = await self._mark(shard)
            if not revision:
                return  # it was dropped
            # A token that is gone was taken for a dead one, and the purge was counted half.
            purging = self._live(mark, but=token)
            if purging:  # the last of them counts anew
                ended = msgspec.structs.replace(mark, purging=purging)
            else:
                found = (await self.below.streams())[shard]
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
