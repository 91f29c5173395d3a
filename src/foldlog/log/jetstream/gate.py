"""The incarnation check of one shard: nothing is read or appended before it was made.

It is made when a store opens, and again after each time the connection was lost: a server that
was away may come back with less, and whatever is appended then takes sequences that others have
read. While the connection lasts it costs nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from foldlog.errors import LogRewound, LogUnavailable
from foldlog.log import incarnation
from foldlog.log.incarnation import Known, Loss, Mark, Shard, find_loss
from foldlog.log.jetstream.connection import ReplyLost
from foldlog.log.jetstream.keeper import ATTEMPTS, MarkKeeper
from foldlog.log.jetstream.marks import StreamMarks

_log: Final = logging.getLogger("foldlog")


class Gate:
    """Lets reads and appends of one shard pass once the check has found nothing lost.

    Attributes:
        known: the highest sequence that this process knows of, from acks, reads and checks.
        keeper: keeps the mark up to date. `close` ends it.

    Args:
        created: when the shard's stream was created, where that is known already.
        clock: Unix seconds.
    """

    def __init__(
        self,
        marks: StreamMarks,
        created: str | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.known = 0
        self._marks = marks
        self._clock = clock
        self._created = created
        self._incarnation: str | None = None
        # The connection with which reads, and appends, have passed.
        self._reads_over = self._appends_over = marks.reconnects
        self._lost_before: tuple[int, str] | None = None
        self._checking = asyncio.Lock()
        self.keeper = MarkKeeper(marks, self._look, clock)

    @property
    def identity(self) -> str:
        """What tells this incarnation of the shard from any other that had its name."""
        return f"{self._created or ''}/{self._incarnation or ''}"

    @property
    def passes_reads(self) -> bool:
        """Whether reads need not wait for `check_before_read`."""
        return self._reads_over == self._marks.reconnects

    @property
    def passes_appends(self) -> bool:
        """Whether appends need not wait for `check_before_append`."""
        return self._appends_over == self._marks.reconnects

    def seen(self, seq: int) -> None:
        """Note that a record at `seq` was read or pushed."""
        if seq > self.known:
            self.known = seq

    def appended(self, seq: int) -> None:
        """Note that a record of this process was acked at `seq`; the mark is renewed in time."""
        if seq > self.known:
            self.known = seq
        self.keeper.note_growth()

    async def open(self) -> None:
        """Make the first check. What it finds is for reads to raise; appends may go on.

        That nobody answers is no error: the first read asks again.
        """
        try:
            losses = await self.check()
        except LogUnavailable as error:
            self._reads_over = -1
            _log.info("whether the log lost anything is not known yet: %s", error)
            return
        for loss in losses:
            _log.warning("%s", loss)
            self._lost_before = (loss.sequence, loss.reason)
            self._appends_over = self._marks.reconnects

    async def check(self) -> list[Loss]:
        """Compare the shard with its mark and with what is known here; return what it lost.

        That is one error, or none; in a list, because `gather` takes an error for one raised.

        Raises:
            LogUnavailable: nobody answered.
        """
        async with self._checking:
            loss = await self._check()
        return [] if loss is None else [loss]

    async def check_before_read(self) -> None:
        """Let a read pass.

        Raises:
            LogRewound, LogCorrupt: the shard lost something, and nobody has accepted that.
            LogUnavailable: nobody answered.
        """
        if self.passes_reads:
            return
        async with self._checking:
            loss = None if self.passes_reads else await self._check()
        if loss is not None:
            raise loss

    async def check_before_append(self, timeout: float) -> None:
        """Let an append pass. A gap, and what was lost before the store opened, stop none.

        Raises:
            LogRewound: the shard lost something while this store was open.
            LogUnavailable: nobody answered in `timeout` seconds. Nothing was sent to the log.
        """
        try:
            async with asyncio.timeout(timeout), self._checking:
                loss = None if self.passes_appends else await self._check()
        except (ReplyLost, TimeoutError) as silence:
            # Not a ReplyLost any more: no append is in doubt for this.
            raise LogUnavailable(f"what the log holds is not known: {silence!r}") from silence
        if loss is not None and self._refuses_appends(loss):
            raise loss

    async def close(self) -> None:
        """Renew the mark if this process has appended since. Idempotent."""
        await self.keeper.close()

    async def accept(self) -> None:
        """Take the shard as it is, if it lost anything; it is another incarnation then.

        Raises:
            LogUnavailable: nobody answered, or the mark could not be replaced.
        """
        async with self._checking:
            reconnects, known = self._marks.reconnects, self.known
            loss, mark, revision, found = await self._look()
            if loss is None:
                return
            if not self._is_accepted_elsewhere(mark) or find_loss(mark, found) is not None:
                mark = incarnation.accepted(mark, found, self._clock())
                if not await self.keeper.replace(mark, revision) and revision:
                    raise LogUnavailable(f"{found.name}: its mark could not be replaced")
            if found.last_seq < known:
                self.known = found.last_seq
            self._lost_before = None
            self._pass(mark, found, reconnects)

    async def _look(self) -> tuple[Loss | None, Mark, int, Shard]:
        # What is known first, then the mark: what is appended meanwhile only adds to the shard.
        known = Known(self.known, self._created, self._incarnation)
        mark, revision = await self._marks.get()
        found = await self._marks.describe()
        return find_loss(mark, found, known), mark, revision, found

    async def _check(self) -> Loss | None:
        reconnects, is_confirmed = self._marks.reconnects, False
        for _ in range(ATTEMPTS):
            loss, mark, revision, found = await self._look()
            if loss is None:
                self._pass(mark, found, reconnects)
                return None
            if (await self._marks.get())[1] != revision:
                continue  # a purge that began in between looks like a loss
            if found.replicas == 1 or is_confirmed:
                break
            await self._marks.confirm_leader()  # a deposed one does not know all that was acked
            is_confirmed = True
        else:
            raise LogUnavailable(f"the mark of {found.name} changes all the time")
        self._reads_over = -1
        self._appends_over = -1 if self._refuses_appends(loss) else reconnects
        is_shown = mark.ended is not None or self._is_accepted_elsewhere(mark)
        if isinstance(loss, LogRewound) and not is_shown:
            # Later appends would hide it from who opens the log next.
            await self.keeper.replace(incarnation.rewound(mark, loss, found), revision)
        return loss

    def _is_accepted_elsewhere(self, mark: Mark) -> bool:
        return self._incarnation is not None and mark.incarnation not in ("", self._incarnation)

    def _refuses_appends(self, loss: Loss) -> bool:
        # What is appended to a log that ends too early takes sequences that others have read.
        return isinstance(loss, LogRewound) and (loss.sequence, loss.reason) != self._lost_before

    def _pass(self, mark: Mark, found: Shard, reconnects: int) -> None:
        self.seen(found.last_seq)
        self._created = found.created or self._created
        self._incarnation = mark.incarnation
        self._reads_over = self._appends_over = reconnects
