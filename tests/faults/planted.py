"""Bugs, planted one at a time where a store's promises are kept: the judge must find each.

Each is a context in which something is broken, and the kind of violation that tells of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, NamedTuple
from unittest.mock import patch

import msgspec

from foldlog.envelope import Draft, Recorded, Writer
from foldlog.errors import AppendConflict, AppendUnknown, LogUnavailable
from foldlog.log.jetstream.publisher import Publisher
from foldlog.log.port import Append, Record
from foldlog.store.core import Core
from foldlog.subjects import Subject
from foldlog.views.view import View
from foldlog.views.views import Views
from foldlog_projections.fold import Folded, step
from foldlog_projections.pauses import kind as pauses
from tests.faults.simulation.faults import Faults
from tests.faults.simulation.port import SimulatedLog
from tests.faults.simulation.stream import Stored, Stream

World = Literal["port", "wire"]
Plant = Callable[[], AbstractContextManager[Any]]


class Planted(NamedTuple):
    """A bug, what tells of it, in which world it shows, and the faults that bring it out."""

    plant: Plant
    kinds: set[str]
    world: World
    faults: Faults | None


PLANTED: dict[str, Planted] = {}


def planted(
    *kinds: str, world: World = "port", faults: Faults | None = None
) -> Callable[[Plant], Plant]:
    """Name a bug, and the kinds of violation of which one must be found."""

    def plant(bug: Plant) -> Plant:
        PLANTED[bug.__name__] = Planted(bug, set(kinds), world, faults)
        return bug

    return plant


def _every(nth: int) -> Callable[[], bool]:
    """Says True each `nth` time."""
    count = 0

    def due() -> bool:
        nonlocal count
        count += 1
        return count % nth == 0

    return due


_commit = SimulatedLog.commit


def _committing(commit: Callable[..., Any]) -> AbstractContextManager[Any]:
    return patch.object(SimulatedLog, "commit", commit)


@planted("lost")
def an_ack_for_what_is_not_stored() -> AbstractContextManager[Any]:
    due = _every(15)

    def commit(self: SimulatedLog, appends: Sequence[Append]) -> Any:
        if due():
            return [self.stream.last for _ in appends]
        return _commit(self, appends)

    return _committing(commit)


@planted("invented")
def a_refusal_of_what_is_stored() -> AbstractContextManager[Any]:
    """As a client that buffers while it is disconnected, and sends after all."""
    append, due = SimulatedLog.append, _every(10)

    async def appending(self: SimulatedLog, appends: Any, *, atomic: bool = False) -> Any:
        seqs = await append(self, appends, atomic=atomic)
        if due():
            raise LogUnavailable("not connected")
        return seqs

    return patch.object(SimulatedLog, "append", appending)


@planted("invented", "resumed", world="wire")
def a_conflict_that_is_ones_own_message() -> AbstractContextManager[Any]:
    """A server without replicas answers so to a second attempt whose first was stored."""

    async def read_back(self: Publisher, unit: Any, conflict: Any, deadline: float) -> Any:
        return conflict

    return patch.object(Publisher, "_read_back", read_back)


@planted("doubled")
def a_fold_that_does_not_drop_repeats() -> AbstractContextManager[Any]:
    def applying(projection: Any, folded: Folded[Any], envelope: Recorded) -> bool:
        folded.state = projection.apply(folded.state, envelope)
        folded.seen.setdefault(envelope.id, len(folded.seen))
        return True

    return patch("foldlog.views.fold.step", applying)


@planted("incomplete")
def a_fold_that_takes_all_writers_for_one() -> AbstractContextManager[Any]:
    """It drops an acked save as overtaken by one of somebody else, whose counter is higher."""

    def taking(projection: Any, folded: Folded[Any], envelope: Recorded) -> bool:
        writer = envelope.writer and "anybody"
        return step(projection, folded, msgspec.structs.replace(envelope, writer=writer))

    return patch("foldlog.views.fold.step", taking)


@planted("incomplete", faults=Faults(ghost=0.3))
def a_fold_that_lets_overtaken_saves_in() -> AbstractContextManager[Any]:
    def letting(projection: Any, folded: Folded[Any], envelope: Recorded) -> bool:
        return step(projection, folded, msgspec.structs.replace(envelope, writer=""))

    return patch("foldlog.views.fold.step", letting)


@planted("lost")
def a_writer_that_counts_down() -> AbstractContextManager[Any]:
    """Its acked saves look overtaken by those that it had made before them."""
    stamped = Writer.stamped

    def stamping(self: Writer, drafts: Sequence[Draft], *where: Any) -> tuple[Draft, ...]:
        return tuple(
            msgspec.structs.replace(each, n=1_000_000 - each.n)
            for each in stamped(self, drafts, *where)
        )

    return patch.object(Writer, "stamped", stamping)


@planted("order")
def records_that_overtake_each_other() -> AbstractContextManager[Any]:
    held: list[tuple[SimulatedLog, Any]] = []

    def commit(self: SimulatedLog, appends: Sequence[Append]) -> Any:
        free = all(append.expect is None for append in appends)
        if free and not held:
            held.append((self, appends))
            return [self.stream.last for _ in appends]  # said too early, stored after the next
        seqs = _commit(self, appends)
        while free and held:
            late, those = held.pop()
            _commit(late, those)
        return seqs

    return _committing(commit)


@planted("swapped", "resumed", "invented")
def a_log_that_ignores_expectations() -> AbstractContextManager[Any]:
    def commit(self: SimulatedLog, appends: Sequence[Append]) -> Any:
        return _commit(self, [msgspec.structs.replace(a, expect=None) for a in appends])

    return _committing(commit)


@planted("resumed")
def a_resume_without_compare_and_set() -> AbstractContextManager[Any]:
    async def append(self: Core, appends: Sequence[Append], **how: Any) -> list[int]:
        return await self.forked_log.append(
            [msgspec.structs.replace(each, expect=None) for each in appends]
        )

    return patch.object(Core, "append_at_once", append)


@planted("resumed")
def a_resume_that_tells_nobody() -> AbstractContextManager[Any]:
    compare, due = Core.append_at_once, _every(3)

    async def append(self: Core, appends: Sequence[Append], **how: Any) -> list[int]:
        seqs = await compare(self, appends, **how)
        if due():
            raise AppendConflict(appends[0].subject.name, appends[0].expect or 0, seqs[0])
        return seqs

    return patch.object(Core, "append_at_once", append)


@planted("resumed")
def a_pause_that_forgets_what_was_spent() -> AbstractContextManager[Any]:
    apply = pauses.apply

    def forgetful(state: Any, envelope: Recorded, /) -> Any:
        state = apply(state, envelope)
        state.spent = set()
        return state

    return patch.object(pauses, "apply", forgetful)


@planted("torn", "lost")
def a_block_of_which_half_is_stored() -> AbstractContextManager[Any]:
    due = _every(2)

    def commit(self: SimulatedLog, appends: Sequence[Append]) -> Any:
        if len(appends) > 1 and due():
            return [*_commit(self, appends[:1]), *[self.stream.last] * (len(appends) - 1)]
        return _commit(self, appends)

    return _committing(commit)


@planted("incomplete", faults=Faults(lag=1.0))
def strong_reads_from_a_lagging_replica() -> AbstractContextManager[Any]:
    async def head(self: SimulatedLog, subject: Subject, strong: bool) -> int:
        await self._reach()
        found = self.stream.read(subject.name, 0, 1)
        return found[-1].seq if found else 0

    return patch.object(SimulatedLog, "_head", head)


@planted("incomplete")
def a_read_that_stops_a_page_early() -> AbstractContextManager[Any]:
    read, due = SimulatedLog.read, _every(5)

    async def reading(self: SimulatedLog, subject: Subject, **how: Any) -> Any:
        early = due()
        async for page in read(self, subject, **how):
            yield page
            if early:
                return

    return patch.object(SimulatedLog, "read", reading)


@planted("incomplete", "gap", faults=Faults(damaged=0.05))
def a_damaged_record_that_is_skipped() -> AbstractContextManager[Any]:
    records = SimulatedLog._records

    def readable(self: SimulatedLog, found: Sequence[Stored]) -> list[Record]:
        return records(self, [each for each in found if each.seq not in self.stream.unreadable])

    return patch.object(SimulatedLog, "_records", readable)


@planted("incomplete", "gap")
def pushes_taken_without_a_look_at_what_is_missing() -> AbstractContextManager[Any]:
    def hint(self: View[Any], record: Record, epoch: int) -> None:
        self.known_head = max(self.known_head, record.seq)
        self.checked_epoch = epoch
        self.apply([record])
        self.wake()

    return patch.object(View, "hint", hint)


@planted("incomplete")
def a_session_that_forgets_its_own_saves() -> AbstractContextManager[Any]:
    return patch.object(Views, "acked", lambda self, subject, seq: None)


@planted("gap", faults=Faults(dropped=0.3))
def a_watcher_that_nobody_wakes_for_what_it_missed() -> AbstractContextManager[Any]:
    """It trusts pushes for ever, and one that is lost it never looks for."""

    @contextmanager
    def planting() -> Any:
        with (
            patch("foldlog.views.views.TRUST_SECONDS", 1e6),
            patch.object(View, "acked", lambda self, seq: None),
        ):
            yield

    return planting()


@planted("invented")
def bytes_that_change_on_their_way() -> AbstractContextManager[Any]:
    store = Stream.store

    def storing(self: Stream, subject: str, data: bytes) -> Stored:
        return store(
            self, subject, data.replace(b"\xa4text", b"\xa4tExt") if self.last % 7 == 6 else data
        )

    return patch.object(Stream, "store", storing)


@planted("untold")
def an_unknown_outcome_that_names_no_ids() -> AbstractContextManager[Any]:
    def unknown(self: SimulatedLog, appends: Sequence[Append]) -> AppendUnknown:
        return AppendUnknown([], "no ack came")

    return patch.object(SimulatedLog, "unknown", unknown)


@planted("untold")
def a_conflict_that_names_what_was_expected() -> AbstractContextManager[Any]:
    def commit(self: SimulatedLog, appends: Sequence[Append]) -> Any:
        ended = _commit(self, appends)
        if isinstance(ended, AppendConflict):
            return AppendConflict(ended.subject, ended.expected, ended.expected)
        return ended

    return _committing(commit)


@planted("problem")
def a_subscription_that_is_left() -> AbstractContextManager[Any]:
    async def release(self: Views, view: View[Any]) -> None:
        self._hot.remove(view)

    return patch.object(Views, "_release", release)


@planted("alarm")
def a_log_that_is_called_rewound() -> AbstractContextManager[Any]:
    """As it was with a replica that lags and answers while there is no leader."""
    return patch("foldlog.views.hydration.holds", lambda position, first: False)
