"""What a run did, and what the log holds in the end: all that the checker gets to see.

A *subject* is `<family>/<key>`, as `updates/session-1`. A *token* is what identifies a save for
good: nobody saves two different things under one token. Moments are integers that only compare:
one operation came before another if it ended at an earlier moment than the other began.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import msgspec

from foldlog import AppendConflict, AppendUnknown, FoldlogError, Store, codec
from foldlog.envelope import CLEARED, Recorded
from foldlog.store.restoring import load
from foldlog_projections.bindings import BindingSaved
from foldlog_projections.events import EventSaved
from foldlog_projections.pauses import PauseSaved
from foldlog_projections.scoped.scoped import Written
from foldlog_projections.tasks import TaskSaved

Outcome = Literal["pending", "ok", "refused", "unknown"]


class Op(msgspec.Struct, kw_only=True, tag=True):
    """One call. `pending`: its caller was killed or cancelled before it heard how it ended."""

    client: str
    start: int = 0
    end: int | None = None
    outcome: Outcome = "pending"
    error: str = ""

    def precedes(self, other: Op) -> bool:
        """Whether it had ended before `other` began."""
        return self.end is not None and self.end < other.start


class Save(Op):
    """A save of tokens under subjects. `named`: the ids that its AppendUnknown carried."""

    writes: list[tuple[str, str]]
    atomic: bool = False
    named: list[str] | None = None


class Read(Op):
    """A read of a whole subject: the tokens found."""

    subject: str
    consistency: str
    found: list[str] = []


class Resume(Op):
    """A resume of a pause: the token of what it got, None for nothing."""

    subject: str
    got: str | None = None


class Swap(Op):
    """A compare-and-set: `seq` is where it stands, `actual` what its conflict said."""

    subject: str
    token: str
    expect: int
    seq: int | None = None
    actual: int | None = None


class Watch(Op):
    """What a watcher was given. `whole`: it had the time to be given everything."""

    subject: str
    since: str | None = None
    got: list[str] = []
    whole: bool = False


AnyOp = Save | Read | Resume | Swap | Watch


class Entry(NamedTuple):
    """An envelope on the log; the token of one that saves nothing is "".

    One that is `overtaken` came after what its writer had saved later: no fold lets it in.
    """

    seq: int
    id: str
    token: str
    overtaken: bool = False


class History(msgspec.Struct):
    """A run. `problems` are what it noticed by itself: leaks, foreign errors.

    `damaged`: stored messages were made unreadable in it.
    """

    ops: list[AnyOp]
    log: dict[str, list[Entry]]
    problems: list[str] = []
    damaged: bool = False


class Recorder:
    """Records the calls of one client."""

    def __init__(self, client: str, ops: list[AnyOp]) -> None:
        self.client = client
        self.ops = ops

    def now(self) -> int:
        """The present moment; the next call gives a later one."""
        raise NotImplementedError

    def note(self, op: AnyOp) -> None:
        """Take note of a call that begins or has ended."""

    @contextmanager
    def recorded(self, op: AnyOp) -> Iterator[Any]:
        """Record the call made inside the block. It ends quietly in whatever way a call may."""
        op.start = self.now()
        self.ops.append(op)
        self.note(op)
        try:
            yield op
            op.outcome = "ok"
        except AppendUnknown as error:
            op.outcome, op.error = "unknown", str(error)
            if isinstance(op, Save):
                op.named = error.ids
        except FoldlogError as error:
            op.outcome, op.error = "refused", repr(error)
            if isinstance(op, Swap) and isinstance(error, AppendConflict):
                op.actual = error.actual
        op.end = self.now()
        self.note(op)


class Counting(Recorder):
    """Moments are counted: for what runs on one event loop."""

    def __init__(self, client: str, ops: list[AnyOp], moments: Iterator[int]) -> None:
        super().__init__(client, ops)
        self._moments = moments

    def now(self) -> int:
        return next(self._moments)


class Timing(Recorder):
    """Moments are the machine's clock, the same in each of its processes.

    `on_note` is called with each operation that begins, grows or ends.
    """

    def __init__(self, client: str, ops: list[AnyOp], on_note: Callable[[AnyOp], None]) -> None:
        super().__init__(client, ops)
        self._on_note = on_note

    def now(self) -> int:
        return time.monotonic_ns()

    def note(self, op: AnyOp) -> None:
        self._on_note(op)


def token_of(family: str, envelope: Recorded) -> str:
    """The token of what an envelope saves."""
    match family:
        case "memory":
            return str(codec.decode(envelope.payload)["state"]["token"])
        case "tasks":
            return str(load(TaskSaved, envelope.payload).description)
        case "pauses" if envelope.type == "pause.saved":
            return str(load(PauseSaved, envelope.payload).payload["token"])
        case "pauses":
            return ""
        case "events":
            return str(load(EventSaved, envelope.payload).payload["token"])
        case "trajectory":
            return str(codec.decode(envelope.payload)["trajectory"]["query"])
        case "bindings":
            return str(load(BindingSaved, envelope.payload).agent_url)
        case "scoped":
            return str(codec.decode(load(Written, envelope.payload).value)["token"])
        case _:
            return envelope.id


async def log_of(store: Store) -> dict[str, list[Entry]]:
    """What the log holds, read anew, record by record."""
    log: dict[str, list[Entry]] = {}
    for subject in await store._core.log.subjects():
        if subject.family in _INDICES:
            continue
        newest: dict[tuple[str, str], int] = {}
        entries = log[f"{subject.family}/{subject.keys[-1]}"] = []
        async for envelope in _envelopes(store, subject):
            if envelope.type == CLEARED:
                continue
            token = token_of(subject.family, envelope)
            overtaken = False
            if token and subject.family in REPLACED:
                key = envelope.writer, replaced(token)
                last = newest.get(key, 0)
                overtaken = bool(envelope.writer) and envelope.n < last
                newest[key] = max(last, envelope.n)
            entries.append(Entry(envelope.seq, envelope.id, token, overtaken))
    return log


REPLACED = ("memory", "tasks", "pauses", "trajectory", "bindings", "scoped")
"""Families in which a save takes the place of an earlier one."""

_INDICES = ("belongings", "traces", "routes", "waiting", "cleared", "lineage")
"""Families that say what others hold, or held."""


def replaced(token: str) -> str:
    """What a token of such a family replaces inside its subject: `<replaced>#<token>`."""
    return token.partition("#")[0] if "#" in token else ""


async def _envelopes(store: Store, subject: Any) -> AsyncIterator[Recorded]:
    async for records in store._core.log.read(subject):
        for record in records:
            for envelope in record.envelopes:
                yield envelope
