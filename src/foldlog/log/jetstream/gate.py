"""The incarnation check of one shard, made when a store opens and after each lost connection.

A server may come back with less, and what is appended then takes sequences that others have read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec

from foldlog.errors import (
    AppendFailed,
    ConfigurationError,
    FoldlogError,
    LogRewound,
    LogUnavailable,
)
from foldlog.log import incarnation
from foldlog.log.incarnation import Known, Loss, Mark, Shard, find_loss
from foldlog.log.jetstream.connection import Forbidden
from foldlog.log.jetstream.side import SideStream
from foldlog.log.jetstream.stream import StreamClient
from foldlog.subjects import Namespace

MARK_SECONDS: Final = 10.0
"""How far a mark may lag behind what this process appends."""

_ATTEMPTS: Final = 10
"""How often a mark that another process has just replaced is read again."""

_log: Final = logging.getLogger("foldlog")
_decoder = msgspec.json.Decoder(Mark)


class StreamMarks:
    """A shard and its mark, as the leader of each stream has them.

    Where the account may not read marks, there are none.
    """

    def __init__(self, side: SideStream, namespace: Namespace, shard: int) -> None:
        self._side = side
        self._shard = StreamClient(side.connection, namespace.stream(shard), timeout=side.timeout)
        self._subject = namespace.mark(shard)
        self._barrier = namespace.barrier(shard)

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and made again."""
        return self._side.connection.reconnects

    async def describe(self) -> Shard:
        """Return what the shard's leader says of it."""
        found = await self._shard.describe_by_leader()
        state = found.state
        name = self._shard.name
        return Shard(name, found.created, state.last_seq, state.messages, found.replicas)

    async def confirm_leader(self) -> None:
        """Return when a majority has confirmed the shard's leader."""
        await self._shard.confirm_leader(self._barrier)

    async def get(self) -> tuple[Mark, int]:
        """Return the mark and its revision; an empty one and 0 where there is none to be seen."""
        try:
            stored = await self._side.last(self._subject)
        except Forbidden:
            _log.warning("%s cannot be read: a lost record goes unnoticed", self._side.name)
            stored = None
        if stored is None:
            return Mark(), 0
        try:
            return _decoder.decode(stored.data), stored.seq
        except msgspec.MsgspecError:
            return Mark(), stored.seq  # it says nothing; the next one replaces it

    async def put(self, mark: Mark, revision: int) -> bool:
        """Replace the mark of that revision; return whether it was that."""
        expected = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        return await self._side.publish([(self._subject, msgspec.json.encode(mark))], expected)

    async def drop(self) -> None:
        """Remove the mark."""
        await self._side.purge(self._subject, overwrite=False)


class Gate:
    """Lets reads and appends of one shard pass once the check has found nothing lost.

    A shard that was rewound takes no appends and no reads, a shard with a gap no reads, until
    `accept`. While this process appends, a task renews the mark; it ends with `close`.

    `known` is the highest sequence of all acks, reads and checks; `created` is when the stream was
    created, where that is known already; `clock` returns Unix seconds.
    """

    def __init__(
        self,
        marks: StreamMarks,
        created: str | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.known: int = 0
        self._marks = marks
        self._clock = clock
        self._created = created
        self._incarnation: str | None = None
        self._checked = marks.reconnects  # the connection over which the last check was made
        self._loss: Loss | None = None  # what the last check found
        self._checking = asyncio.Lock()
        self._announcing = asyncio.Lock()
        self._quiet_until = 0.0
        self._renewal: asyncio.Task[None] | None = None
        self._has_grown = False

    @property
    def identity(self) -> str:
        """What tells this incarnation of the shard from any other that had its name."""
        return f"{self._created or ''}/{self._incarnation or ''}"

    @property
    def passes_reads(self) -> bool:
        """Whether reads need not wait for `check_before_read`."""
        return self._loss is None and self._checked == self._marks.reconnects

    @property
    def passes_appends(self) -> bool:
        """Whether appends need not wait for `check_before_append`."""
        return self._checked == self._marks.reconnects and not isinstance(self._loss, LogRewound)

    def seen(self, seq: int) -> None:
        """Note that a record at `seq` was read or pushed."""
        if seq > self.known:
            self.known = seq

    def appended(self, seq: int) -> None:
        """Note that a record of this process was acked at `seq`; the mark is renewed in time."""
        if seq > self.known:
            self.known = seq
        if not self._has_grown:
            self._has_grown = True
            if self._renewal is None or self._renewal.done():
                self._renewal = asyncio.create_task(self._renew_behind(), name="foldlog-mark")

    # --- the check ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Make the first check. If nobody answers, the first read or append asks again."""
        try:
            for loss in await self.check():
                _log.warning("%s", loss)
        except LogUnavailable as error:
            self._checked = -1
            _log.info("whether the log lost anything is not known yet: %s", error)

    async def check(self) -> list[Loss]:
        """Compare the shard with its mark and with what is known here; return what it lost.

        One error or none, in a list, because `gather` takes an error for one raised.
        """
        async with self._checking:
            await self._check()
        return [] if self._loss is None else [self._loss]

    async def check_before_read(self) -> None:
        """Raise LogRewound or LogCorrupt if the shard lost something that nobody has accepted."""
        if self.passes_reads:
            return
        async with self._checking:
            if not self.passes_reads:
                await self._check()
        if self._loss is not None:
            raise self._loss

    async def check_before_append(self, timeout: float) -> None:
        """Raise LogRewound if the shard was rewound and nobody has accepted that.

        Raise LogUnavailable if nobody answers in `timeout` seconds.
        """
        try:
            async with asyncio.timeout(timeout), self._checking:
                if not self.passes_appends:
                    await self._check()
        except TimeoutError as error:
            raise LogUnavailable("what the log holds is not known") from error
        if isinstance(self._loss, LogRewound):
            raise self._loss

    async def accept(self) -> None:
        """Take the shard as it is, if it lost anything; it is another incarnation then."""
        async with self._checking:
            reconnects, known = self._marks.reconnects, self.known
            loss, mark, revision, found = await self._look()
            if loss is None:
                return
            if not self._is_accepted_elsewhere(mark) or find_loss(mark, found) is not None:
                mark = incarnation.accepted(mark, found, self._clock())
                if not await self._replace(mark, revision) and revision:
                    raise LogUnavailable(f"{found.name}: its mark could not be replaced")
            if found.last_seq < known:
                self.known = found.last_seq
            self._pass(mark, found, reconnects)

    async def _look(self) -> tuple[Loss | None, Mark, int, Shard]:
        # What is known first, then the mark: what is appended meanwhile only adds to the shard.
        known = Known(self.known, self._created, self._incarnation)
        mark, revision = await self._marks.get()
        found = await self._marks.describe()
        return find_loss(mark, found, known), mark, revision, found

    async def _check(self) -> None:
        reconnects, is_confirmed = self._marks.reconnects, False
        for _ in range(_ATTEMPTS):
            loss, mark, revision, found = await self._look()
            if loss is None:
                self._pass(mark, found, reconnects)
                return
            if (await self._marks.get())[1] != revision:
                continue  # a purge that began in between looks like a loss
            if found.replicas == 1 or is_confirmed:
                break
            await self._marks.confirm_leader()  # a deposed one does not know all that was acked
            is_confirmed = True
        else:
            raise LogUnavailable(f"the mark of {found.name} changes all the time")
        self._checked, self._loss = reconnects, loss
        is_shown = mark.ended is not None or self._is_accepted_elsewhere(mark)
        if isinstance(loss, LogRewound) and not is_shown:
            # A process that has not noticed may append, which would hide it at the next opening.
            await self._replace(incarnation.rewound(mark, loss, found), revision)

    def _is_accepted_elsewhere(self, mark: Mark) -> bool:
        return self._incarnation is not None and mark.incarnation not in ("", self._incarnation)

    def _pass(self, mark: Mark, found: Shard, reconnects: int) -> None:
        self.seen(found.last_seq)
        self._created = found.created or self._created
        self._incarnation = mark.incarnation
        self._checked, self._loss = reconnects, None

    # --- the mark -------------------------------------------------------------------------------

    async def announce_purge(self) -> None:
        """Make the mark say that records may go; it proves no gap until it is renewed.

        Nothing may be purged if this raises LogUnavailable.
        """
        async with self._announcing:
            # One announcement covers the purges of the time in which records are not counted.
            if self._quiet_until - self._clock() >= incarnation.QUIET_SECONDS / 2:
                return
            try:
                for _ in range(_ATTEMPTS):
                    mark, revision = await self._marks.get()
                    mark = incarnation.purged(mark, self._clock())
                    if await self._marks.put(mark, revision):
                        self._quiet_until = mark.quiet_until
                        return
            except (AppendFailed, ConfigurationError) as error:
                # Perhaps there is no space left, which a purge makes.
                _log.info("a purge goes without a mark: %s", error)
            await self._marks.drop()  # better no mark than a wrong one

    async def close(self, timeout: float | None = None) -> None:
        """Renew the mark, in `timeout` seconds, if this process has appended since. Idempotent."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])
            self._renewal = None
            try:
                async with asyncio.timeout(timeout):
                    await self._renew()
            except TimeoutError:
                _log.info("the mark of a shard was not renewed in time")

    async def _renew_behind(self) -> None:
        while self._has_grown:
            await asyncio.sleep(MARK_SECONDS)
            await self._renew()

    async def _renew(self) -> None:
        """Renew the mark; where that is not possible the earlier one stays."""
        if not self._has_grown:
            return
        self._has_grown = False
        try:
            loss, mark, revision, found = await self._look()
            renewed = incarnation.renewed(mark, found, self._clock())
            if loss is None and renewed != mark:  # else the evidence stays
                await self._replace(renewed, revision)
        except LogUnavailable as error:
            _log.info("the mark of a shard was not renewed: %s", error)
        except asyncio.CancelledError:
            self._has_grown = True
            raise

    async def _replace(self, mark: Mark, revision: int) -> bool:
        """Replace the mark of that revision; return whether it was. The log works without, too."""
        try:
            return await self._marks.put(mark, revision)
        except FoldlogError as error:
            _log.info("the mark of a shard was not replaced: %s", error)
            return False
