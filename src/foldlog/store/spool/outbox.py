"""The way of an append in a degrading store: to the log or into the spool, and from there on.

1. What the log takes is on the log.
2. What it cannot take now, or may have taken, is put into the spool.
3. While anything waits there, all that comes goes behind it: a queue keeps order.
4. One task appends what waits in order, until nothing does. When little is left, what comes waits
   for that instead: else a busy writer would go through the spool for ever.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from foldlog.errors import (
    AppendFailed,
    AppendUnknown,
    FoldlogError,
    LogRewound,
    LogUnavailable,
    StoreClosed,
)
from foldlog.log.packing import check_atomic
from foldlog.log.port import Append, Log
from foldlog.store.failures import log_failure
from foldlog.store.spool.delivery import FOR_EVER, Delivery, OnStored, Refusal
from foldlog.store.spool.errors import NotSpooled, Refused, Spooled
from foldlog.store.spool.frames import entry
from foldlog.store.spool.lanes import Lanes
from foldlog.store.spool.spool import Chunk, Spool, SpoolHealth

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
"""Seconds until the log is asked again: doubled each time, and at once when it has reconnected."""

_PATIENCE: Final = 4
"""How often in a row the log may refuse what waits before it is looked at one by one."""

_CLOSING_SECONDS: Final = 5.0
"""How long `close` waits for an attempt that is under way; what is left then stays on the disk."""

_log: Final = logging.getLogger("foldlog")


class Outbox:
    """Appends to a log through a spool. Ended by `close`, before its log."""

    def __init__(self, log: Log, spool: Spool) -> None:
        self._log = log
        self._delivery = Delivery(log)
        self._spool = spool
        self._lanes = Lanes(self._send)
        self._draining: asyncio.Task[None] | None = None
        self._attempt: asyncio.Task[Exception | None] | None = None
        self._reconnected = asyncio.Event()
        self._pause = _FIRST_PAUSE
        self._refusals = 0
        self._is_catching_up = False
        self._closing = False
        self._cause: FoldlogError = LogUnavailable("earlier saves wait in the spool")
        log.on_epoch(self._on_epoch)

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
        if self._spool.waiting:
            self._drain()
            await self._tried()

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
        if not self._spool.waiting:
            return
        self._drain()
        failure = await self._tried()
        if failure is not None:
            raise LogUnavailable(f"earlier saves wait in the spool: {failure}") from failure

    async def close(self) -> None:
        """Let what is in flight end, on the log or in the spool.

        What waits in the spool stays there, but for what an attempt that is under way appends
        within a few seconds.
        """
        self._closing = True
        try:
            await self._lanes.close()
            if self._attempt is not None:
                await asyncio.wait({self._attempt}, timeout=_CLOSING_SECONDS)
        finally:
            tasks = [task for task in (self._draining, self._attempt) if task is not None]
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
            left = self._spool.health
            await self._spool.close()
        if left.waiting:
            _log.warning("envelopes that wait in %s: %d", left.directory, left.waiting)

    async def _send(self, appends: Sequence[Append], atomic: bool) -> list[int]:
        if self._is_catching_up and self._attempt is not None:
            await asyncio.wait({self._attempt})
        if self._spool.waiting:
            if atomic:
                check_atomic(appends)
            cause = self._cause
        else:
            try:
                return await self._log.append(appends, atomic=atomic)
            except (LogUnavailable, AppendUnknown, LogRewound) as error:
                # A log that was rewound takes appends again when somebody has accepted it.
                cause = self._cause = error
        try:
            await self._spool.put(entry(appends, atomic=atomic))
        except NotSpooled as failure:
            raise LogUnavailable(f"{cause}; {failure}") from cause
        finally:
            self._drain()
        raise Spooled([d.id for a in appends for d in a.drafts], cause)

    # --- draining --------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Have what waits appended in the background, from now until nothing waits."""
        if self._draining is None and self._spool.waiting and not self._closing:
            self._pause = _FIRST_PAUSE
            self._draining = asyncio.create_task(self._keep_trying(), name="foldlog-spool")

    async def _keep_trying(self) -> None:
        try:
            # No await after nothing is left: what is put from then on starts another task.
            while self._spool.waiting and not self._closing:
                if await self._tried() is not None:
                    await self._rest()
        finally:
            self._draining = None

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(self._pause):
                await self._reconnected.wait()
        except TimeoutError:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._reconnected.clear()

    def _on_epoch(self) -> None:
        self._reconnected.set()
        if self._draining is not None and not self._closing:
            self._begin_attempt()

    def _begin_attempt(self) -> asyncio.Task[Exception | None]:
        """Try to append all that waits; where an attempt is under way, it is that one."""
        if self._attempt is None or self._attempt.done():
            self._attempt = asyncio.create_task(self._try(), name="foldlog-spool-attempt")
        return self._attempt

    async def _tried(self) -> Exception | None:
        """Wait for an attempt, and return what prevented it. Cancelling this does not end it."""
        attempt = self._begin_attempt()
        await asyncio.wait({attempt})
        return StoreClosed() if attempt.cancelled() else attempt.result()

    async def _try(self) -> Exception | None:
        """Append what waits, then what others have left behind; return what prevents it."""
        try:
            await self._append_waiting()
            await self._spool.adopt()
            await self._append_waiting()
        except Exception as failure:  # noqa: BLE001 - logged, returned, and tried again
            self._refusals += isinstance(failure, AppendFailed)
            if isinstance(failure, FoldlogError):
                self._cause = failure
            if not isinstance(failure, LogUnavailable | AppendUnknown | StoreClosed):
                log_failure("statestore_spool_failed", "append", None, failure)
            return failure
        finally:
            self._is_catching_up = False
        return None

    async def _append_waiting(self) -> None:
        while (chunk := await self._spool.take()) is not None:
            await self._deliver(chunk)
            self._refusals, self._pause = 0, _FIRST_PAUSE
            self._is_catching_up = self._spool.is_nearly_empty

    async def _deliver(self, chunk: Chunk) -> None:
        """Append a chunk. What the log refuses does not hold up the rest for ever: it is set aside,
        once it was refused so often in a row that it cannot be for the moment only.
        """
        dropped, refused = 0, list[Refusal]()
        try:
            if self._refusals < _PATIENCE:
                dropped = await self._delivery.deliver(chunk.entries)
            else:
                dropped, refused = await self._delivery.sift(chunk.entries)
        except FOR_EVER:
            dropped, refused = await self._delivery.sift(chunk.entries)
        envelopes = sum(refusal.entry.envelopes for refusal in refused)
        if refused:
            path = await self._spool.set_aside([refusal.entry for refusal in refused])
            error = Refused(envelopes, path, refused[0].reason)
            log_failure("statestore_spool_refused", "append", None, error)
        self._spool.done(chunk, dropped=dropped, refused=envelopes)
