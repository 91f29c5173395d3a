"""The way of an append in a degrading store: to the log or into the spool, and from there on.

Calls are sent in their order, and behind all that waits. What may be on the log already is sent
again: folds drop an id that they have applied, and an older save of the same writer (decision 7).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, Final, NamedTuple

from foldlog.envelope import CLEARED, draft
from foldlog.errors import (
    AppendFailed,
    AppendUnknown,
    ConfigurationError,
    FoldlogError,
    LogCorrupt,
    LogRewound,
    LogUnavailable,
    PayloadTooLarge,
    StoreClosed,
)
from foldlog.kind import Kind
from foldlog.log.packing import check_atomic
from foldlog.log.port import Append, Log
from foldlog.store.failures import log_failure
from foldlog.store.spool.file import Chunk, Frame
from foldlog.store.spool.spool import Spool, SpoolHealth
from foldlog.subjects import Subject
from foldlog_projections.lineage import MARKER

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 5.0
"""Seconds until the log is tried again: doubled each time, and at once when it has reconnected."""

_PATIENCE: Final = 4
"""How often in a row the log may refuse a chunk before its frames are tried one by one."""

_CLOSING_SECONDS: Final = 5.0
"""How long `close` waits for an attempt that is under way; what is left then stays on the disk."""

_PROBE: Final = "probe"
"""A family without a view, appended to only to see whether the log takes anything."""

_log: Final = logging.getLogger("foldlog.spool")

OnStored = Callable[[Sequence[Append], Sequence[int]], None]
"""Hears of appends that were delivered from the spool, and at which sequences."""


class Spooled(AppendUnknown):
    """On the local disk because of `cause`, and appended when the log is back.

    Not committed yet: callers may treat it as an AppendUnknown.
    """

    page: ClassVar[str] = AppendUnknown.page

    def __init__(self, ids: Sequence[str], cause: FoldlogError) -> None:
        super().__init__(ids, f"spooled: {cause}")
        self.cause = cause


class _Call(NamedTuple):
    """One caller's append, and its outcome."""

    appends: Sequence[Append]
    atomic: bool
    outcome: asyncio.Future[list[int]]

    def fail(self, error: BaseException) -> None:
        if not self.outcome.done():  # else its caller was cancelled
            self.outcome.set_exception(error)


class Outbox:
    """Appends to a log through a spool, until `close`.

    Args:
        log: the log. While it is away, or not reached yet, it raises LogUnavailable.
        spool: what waits for it.
        kinds: the kinds that the store knows: clearing a session concerns those that it owns.

    Attributes:
        on_stored: hears of what is delivered from the spool.
    """

    def __init__(self, log: Log, spool: Spool, kinds: Iterable[Kind[Any]]) -> None:
        self._log = log
        self._spool = spool
        self._of_session = {kind.name for kind in kinds if kind.owner == "session"}
        self.on_stored: OnStored = lambda appends, seqs: None
        self._closing = False
        self._calls: list[_Call] = []
        self._sending: asyncio.Task[None] | None = None
        self._cause: FoldlogError = LogUnavailable("earlier saves wait in the spool")
        self._attempt: asyncio.Task[Exception | None] | None = None
        self._next_attempt: asyncio.TimerHandle | None = None
        self._pause = _FIRST_PAUSE
        self._refusals = 0
        self._is_catching_up = False
        log.on_epoch(self._on_epoch)

    @property
    def health(self) -> SpoolHealth:
        """What the spool holds, and what it has done."""
        return self._spool.health

    async def recover(self) -> None:
        """Append what processes that have ended left behind; what the log does not take waits."""
        await self._try()

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        """Append as `Log.append`, in the order of calls and behind what waits."""
        if self._closing:
            raise StoreClosed
        if atomic:
            check_atomic(appends)
        call = _Call(appends, atomic, asyncio.get_running_loop().create_future())
        self._calls.append(call)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(), name="foldlog-outbox")
        return await call.outcome

    async def settle(self) -> None:
        """Have what waits appended first: what follows is decided on what the log holds."""
        if not self._spool.waiting:
            return
        failure = await self._try()
        if failure is not None:
            raise LogUnavailable(f"earlier saves wait in the spool: {failure}") from failure

    async def close(self) -> None:
        """Let what callers have begun end, on the log or in the spool.

        What waits in the spool stays there, but for what an attempt that is under way delivers
        within a few seconds.
        """
        self._closing = True
        self._cancel_timer()
        try:
            if self._sending is not None:
                await asyncio.wait({self._sending})
            if self._attempt is not None:
                await asyncio.wait({self._attempt}, timeout=_CLOSING_SECONDS)
        finally:
            if self._attempt is not None:
                self._attempt.cancel()
                await asyncio.wait({self._attempt})
            left = self._spool.health
            await self._spool.close()
        if left.waiting:
            _log.warning("envelopes that wait in %s: %d", left.directory, left.waiting)

    # --- sending: to the log, or into the spool ---------------------------------------------------

    async def _send(self) -> None:
        # No await after the last call was taken: what comes from then on starts another task.
        while self._calls:
            if self._is_catching_up and self._attempt is not None:
                await asyncio.wait({self._attempt})
            calls = self._take()
            if calls and calls[0].atomic and not self._spool.waiting:
                await asyncio.gather(*(self._send_together([call]) for call in calls))
            elif calls:
                await self._send_together(calls)

    def _take(self) -> list[_Call]:
        """Take the calls that go next: all into the spool, or all before the next atomic one.

        Atomic ones go side by side, as long as no two have a subject in common.
        """
        calls = [call for call in self._calls if not call.outcome.done()]  # not cancelled
        subjects, count = set[Subject](), len(calls)
        for number, call in enumerate(() if self._spool.waiting else calls):
            own = {append.subject for append in call.appends} if call.atomic else set()
            if call.atomic != calls[0].atomic or own & subjects:
                count = number
                break
            subjects |= own
        self._calls = calls[count:]
        return calls[:count]

    async def _send_together(self, calls: Sequence[_Call]) -> None:
        """Have the log take calls as one append. What it cannot take now goes into the spool."""
        try:
            if not self._spool.waiting:
                appends = [append for call in calls for append in call.appends]
                try:
                    seqs = iter(await self._log.append(appends, atomic=calls[0].atomic))
                except (LogUnavailable, AppendUnknown, LogRewound) as error:
                    # A log that was rewound takes appends again once somebody has accepted it.
                    self._cause = error
                else:
                    for call in calls:
                        found = [next(seqs) for _ in call.appends]
                        if not call.outcome.done():
                            call.outcome.set_result(found)
                    return
            await self._keep(calls)
        except Exception as error:  # noqa: BLE001 - handed to the callers
            if len(calls) == 1:
                calls[0].fail(error)
                return
            for call in calls:  # one that is refused is not the others' fault
                await self._send_together([call])

    async def _keep(self, calls: Sequence[_Call]) -> None:
        cause = self._cause
        failures = await self._spool.put([Frame.of(c.appends, atomic=c.atomic) for c in calls])
        _log.debug("%d saves spooled: %s", len(calls), cause)
        self._drain()
        for call, failure in zip(calls, failures, strict=True):
            ids = [draft.id for append in call.appends for draft in append.drafts]
            if not failure:
                call.fail(Spooled(ids, cause))
            elif isinstance(cause, AppendUnknown):  # the log may have it all the same
                call.fail(AppendUnknown(ids, f"{cause}; {failure}"))
            else:
                call.fail(LogUnavailable(f"{cause}; {failure}"))

    # --- draining ---------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Have what waits delivered in the background, from now until nothing waits."""
        if self._next_attempt is None and not self._closing:
            self._begin_attempt()

    def _begin_attempt(self) -> asyncio.Task[Exception | None]:
        """Try to deliver all that waits; where an attempt is under way, it is that one."""
        self._cancel_timer()
        if self._attempt is None or self._attempt.done():
            self._attempt = asyncio.create_task(self._deliver_all(), name="foldlog-spool")
        return self._attempt

    def _cancel_timer(self) -> None:
        if self._next_attempt is not None:
            self._next_attempt.cancel()
            self._next_attempt = None

    async def _try(self) -> Exception | None:
        """Wait for an attempt, and return what prevented it. Cancelling this does not end it."""
        attempt = self._begin_attempt()
        await asyncio.wait({attempt})
        return StoreClosed() if attempt.cancelled() else attempt.result()

    def _on_epoch(self) -> None:
        self._pause = _FIRST_PAUSE
        if self._next_attempt is not None:
            self._begin_attempt()

    async def _deliver_all(self) -> Exception | None:
        """Deliver what waits, and what others have left behind; return what prevents it.

        There is another attempt later, until nothing waits.
        """
        failure: Exception | None = None
        try:
            while (chunk := await self._spool.take()) is not None:
                await self._deliver(chunk)
                self._refusals, self._pause = 0, _FIRST_PAUSE
                self._is_catching_up = self._spool.is_better_drained
        except Exception as error:  # noqa: BLE001 - logged, returned, and tried again
            failure = error
            self._refusals += isinstance(error, AppendFailed)
            if isinstance(error, FoldlogError):
                self._cause = error
            if not isinstance(error, LogUnavailable | AppendUnknown | StoreClosed):
                log_failure("statestore_spool_failed", "append", None, error)
        finally:
            self._is_catching_up = False
        # No await from here on: what is put once nothing waits begins another attempt.
        if self._spool.waiting and not self._closing:
            loop = asyncio.get_running_loop()
            self._next_attempt = loop.call_later(self._pause, self._begin_attempt)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return failure

    async def _deliver(self, chunk: Chunk) -> None:
        """Append a chunk. What the log refuses for good does not hold up the rest: it is set aside.

        That is what can never be appended, and what is refused again and again while others go.
        """
        dropped, refused, reason = 0, list[Frame](), ""
        try:
            dropped = await self._append(chunk.frames)
        except (AppendFailed, PayloadTooLarge, ConfigurationError) as refusal:
            if isinstance(refusal, AppendFailed) and self._refusals < _PATIENCE:
                raise
            for frame in chunk.frames:
                try:
                    dropped += await self._append([frame])
                except (AppendFailed, PayloadTooLarge, ConfigurationError) as error:
                    if isinstance(error, AppendFailed):
                        await self._probe(frame.drafts[0].subject(self._log.namespace).shard)
                    refused.append(frame)
                    reason = reason or str(error)
        envelopes = sum(frame.envelopes for frame in refused)
        if refused:
            path = await self._spool.set_aside(refused)
            _note_refused(f"the log refuses {envelopes} envelope(s): {reason}; they are in {path}")
        self._spool.done(chunk, dropped=dropped, refused=envelopes)
        _log.debug(
            "%d spooled saves appended (envelopes dropped: %d, refused: %d)",
            *(len(chunk.frames) - len(refused), dropped, envelopes),
        )

    async def _append(self, frames: Sequence[Frame]) -> int:
        """Append frames as one, but for envelopes that were cleared; return how many these are.

        They were cleared if their writer had not seen the last clearing of their subject or
        session. Clocks of several machines cannot tell that; sequences can (`Draft.known`, one for
        all that was saved together). An atomic frame, which comes alone, is dropped as a whole.
        """
        clearings: dict[Subject, int] = {}
        appends, cleared = list[Append](), 0
        for each in (each for frame in frames for each in frame.drafts):
            subject, known = each.subject(self._log.namespace), each.drafts[0].known
            if known and subject not in clearings:
                clearings[subject] = await self._cleared_at(subject)
            at = clearings.get(subject, 0)
            if known == 0 or known >= at:
                appends.append(Append(subject, each.drafts))
            else:
                cleared += len(each.drafts)
                _note_refused(
                    f"{subject.name} was cleared at sequence {at}, which the writer of this had "
                    "not seen"
                )
        atomic = frames[0].atomic
        if atomic and cleared:
            return frames[0].envelopes
        if appends:
            self.on_stored(appends, await self._log.append(appends, atomic=atomic))
        return cleared

    async def _cleared_at(self, subject: Subject) -> int:
        """The sequence at which a subject, or its session, was cleared last; 0 if never."""
        found = 0
        if subject.family in self._of_session:
            marker = await self._log.last(self._log.namespace.subject(MARKER, subject.keys[0]))
            found = 0 if marker is None else marker.seq
        try:
            async with aclosing(self._log.read(subject)) as pages:
                async for records in pages:
                    first = records[0]
                    return max(found, first.seq if first.envelopes[0].type == CLEARED else 0)
        except LogCorrupt:
            pass  # no reader gets any further than that: nothing comes back
        return found

    async def _probe(self, shard: int) -> None:
        """Append something of no meaning."""
        namespace = self._log.namespace
        subject = namespace.subject(_PROBE, namespace.key_on(shard, _PROBE))
        await self._log.append([Append(subject, (draft(_PROBE, b"\xc0", id="probe"),))])


def _note_refused(message: str) -> None:
    log_failure("statestore_spool_refused", "append", None, FoldlogError(message))
