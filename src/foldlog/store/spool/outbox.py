"""The way of an append in a degrading store: to the log or into the spool, and from there on.

1. What the log takes is on the log.
2. What it cannot take now, or may have taken, is put into the spool.
3. While anything waits there, all that comes goes behind it: order is kept by keeping to the queue.
4. One task takes what waits in order and appends it, until nothing does. When little is left, what
   comes waits for that instead: else a busy writer would go through the spool for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from foldlog.errors import (
    AppendFailed,
    AppendUnknown,
    ConfigurationError,
    FoldlogError,
    LogRewound,
    LogUnavailable,
    PayloadTooLarge,
    StoreClosed,
)
from foldlog.log.packing import check_atomic
from foldlog.log.port import Append, Log
from foldlog.store.failures import log_failure
from foldlog.store.spool.delivery import Delivery, OnStored, Refusal
from foldlog.store.spool.errors import NotSpooled, Refused, Spooled
from foldlog.store.spool.frames import entry
from foldlog.store.spool.lanes import Lanes
from foldlog.store.spool.latest import Latest, are_latest
from foldlog.store.spool.spool import Chunk, Spool, SpoolHealth

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
"""Seconds until the log is asked again: doubled each time, and at once when it has reconnected."""

_PATIENCE: Final = 4
"""How often in a row the log may refuse what waits before it is looked at one by one."""

_log: Final = logging.getLogger("foldlog")


class Outbox:
    """Appends to a log through a spool. Ended by `close`, before its log."""

    def __init__(self, log: Log, spool: Spool) -> None:
        self._log = log
        self._latest = Latest(log)
        self._delivery = Delivery(log, self._latest)
        self._spool = spool
        self._lanes = Lanes(self._send)
        self._draining: asyncio.Task[None] | None = None
        self._round: asyncio.Future[Exception | None] | None = None
        self._wake = asyncio.Event()
        self._again = False
        self._catching_up = False
        self._closing = False
        self._cause: FoldlogError = LogUnavailable("earlier saves wait in the spool")
        log.on_epoch(self._try_again)

    def on_stored(self, notify: OnStored) -> None:
        """Have `notify` called with what the log has taken from the spool."""
        self._delivery.on_stored = notify

    @property
    def health(self) -> SpoolHealth:
        """What the spool holds, and what it has done."""
        return self._spool.health

    async def recover(self) -> None:
        """Append what processes that have ended left behind; what the log does not take waits."""
        await self._spool.adopt()
        self._start()
        await self._passed()

    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[Any, Any, list[int]]:
        """Append as `Log.append`, behind what waits and in the order of calls for each subject.

        Raises:
            Spooled: it waits in the spool.
            LogUnavailable, AppendUnknown: neither the log nor the spool has it for sure.
            Others: as `Log.append`.
        """
        if self._closing:
            raise StoreClosed
        return self._lanes.append(appends, atomic=atomic)

    async def settle(self) -> None:
        """Have what waits appended first: what follows is decided on what the log holds.

        Raises:
            LogUnavailable: it cannot be appended now.
        """
        self._start()
        self._try_again()
        failure = await self._passed()
        if failure is not None:
            raise LogUnavailable(f"earlier saves wait in the spool: {failure}") from failure

    async def close(self) -> None:
        """Let what is in flight end, on the log or in the spool; what waits there stays there."""
        self._closing = True
        try:
            await self._lanes.close()
            self._wake.set()
            if self._draining is not None:
                await asyncio.wait({self._draining})
        finally:
            if self._draining is not None:
                self._draining.cancel()
            left = self._spool.health
            await self._spool.close()
        if left.waiting:
            _log.warning("envelopes that wait in %s: %d", left.directory, left.waiting)

    async def _send(self, appends: Sequence[Append], atomic: bool) -> list[int]:
        if self._catching_up:
            await self._passed()
        if self._spool.waiting:
            if atomic:
                check_atomic(appends)
            cause, doubtful = self._cause, False
        else:
            try:
                log = self._latest if are_latest(appends) else self._log
                return await log.append(appends, atomic=atomic)
            except AppendUnknown as error:
                cause, doubtful = error, True
            except (LogUnavailable, LogRewound) as error:
                # A log that was rewound takes appends again when somebody has accepted it.
                cause, doubtful = error, False
        self._cause = cause
        try:
            await self._spool.put(entry(appends, atomic=atomic, doubtful=doubtful))
        except NotSpooled as failure:
            raise LogUnavailable(f"{cause}; {failure}") from cause
        finally:
            self._start()
        raise Spooled([d.id for a in appends for d in a.drafts], cause)

    # --- draining --------------------------------------------------------------------------------

    def _start(self) -> None:
        if self._draining is None and self._spool.waiting and not self._closing:
            self._round = asyncio.get_running_loop().create_future()
            self._draining = asyncio.create_task(self._drain(), name="foldlog-spool")

    async def _passed(self) -> Exception | None:
        """Wait until nothing waits in the spool, or an attempt has failed; return how."""
        return await asyncio.shield(self._round) if self._round is not None else None

    async def _drain(self) -> None:
        """Append what waits until nothing does, then what others have left behind."""
        try:
            await self._drain_all()
        finally:
            # No await since nothing was left: who puts something from now on starts another task.
            self._draining, self._catching_up = None, False
            self._end_round(None)

    async def _drain_all(self) -> None:
        pause, adopted, refusals = _FIRST_PAUSE, False, 0
        while True:
            try:
                chunk = await self._spool.take()
                if chunk is not None:
                    await self._deliver(chunk, refusals)
                    refusals = 0
                    self._catching_up = self._spool.nearly_empty
                    pause = _FIRST_PAUSE
                elif adopted:
                    return
                else:
                    await self._spool.adopt()
                    adopted = True
            except Exception as failure:  # noqa: BLE001 - told, and tried again: nobody else hears it
                refusals += isinstance(failure, AppendFailed)
                self._failed(failure)
                if not await self._rested(pause):
                    return
                pause = min(2 * pause, _LONGEST_PAUSE)

    async def _deliver(self, chunk: Chunk, refusals: int) -> None:
        """Append a chunk. What the log refuses does not hold up the rest for ever: it waits aside,
        once it was refused so often in a row that it cannot be for the moment only.
        """
        dropped, refused = 0, list[Refusal]()
        try:
            if refusals < _PATIENCE:
                dropped = await self._delivery.deliver(chunk.entries)
            else:
                dropped, refused = await self._delivery.sift(chunk.entries)
        except (PayloadTooLarge, ConfigurationError):  # for ever
            dropped, refused = await self._delivery.sift(chunk.entries)
        envelopes = sum(refusal.entry.envelopes for refusal in refused)
        if refused:
            path = await self._spool.set_aside([refusal.entry for refusal in refused])
            error = Refused(envelopes, path, refused[0].reason)
            log_failure("statestore_spool_refused", "append", None, error)
        self._spool.done(chunk, dropped=dropped, refused=envelopes)

    def _failed(self, failure: Exception) -> None:
        self._catching_up = False
        if isinstance(failure, FoldlogError):
            self._cause = failure
        if not isinstance(failure, LogUnavailable | AppendUnknown | StoreClosed):
            log_failure("statestore_spool_failed", "append", None, failure)
        self._end_round(failure)
        self._round = asyncio.get_running_loop().create_future()

    def _end_round(self, failure: Exception | None) -> None:
        ended, self._round = self._round, None
        if ended is not None:
            ended.set_result(failure)

    async def _rested(self, pause: float) -> bool:
        """Wait until it is time for another attempt; False if there is to be none."""
        if not self._closing:
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                return not self._closing
        self._wake.clear()
        again, self._again = self._again, False
        return again or not self._closing

    def _try_again(self) -> None:
        self._again = True
        self._wake.set()
