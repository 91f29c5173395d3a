"""The checkpoints of a thread: a graph's state after each of its steps, in every namespace.

A thread is a session. Its values are bytes of whatever serialiser a program has, and are stored
once: a value refers to the one that the checkpoint before it has in the same channel, and holds
only what is new. So a conversation of n messages takes O(n) bytes, though each step saves it whole.

A record that goes on from a checkpoint which was removed has no effect, however long ago that was:
the thread remembers the places of such checkpoints, also when it is deleted. Neither has one of a
run that does not hold a thread that another one holds. The fold remembers which records it has
refused, so that their writers find out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind, field_id
from foldlog_projections.langgraph.checkpointrecords import (
    COPIED,
    HELD,
    PART,
    PRUNED,
    PUT,
    RELEASED,
    REMOVED,
    WRITTEN,
    Copied,
    Held,
    Part,
    Pruned,
    Put,
    Reason,
    Released,
    Removed,
    Written,
)
from foldlog_projections.langgraph.checkpointshown import shown
from foldlog_projections.langgraph.thread import Hold, Thread

_REFUSED: Final = 256
"""Records without effect that a thread remembers."""


def _apply(thread: Thread, record: Any, envelope: Recorded) -> Thread:
    reason = _APPLY[type(record)](thread, record, envelope)
    if reason is not None:
        thread.refused[record.key] = reason
        if len(thread.refused) > _REFUSED:
            del thread.refused[next(iter(thread.refused))]
    return thread


def _put(thread: Thread, put: Put, envelope: Recorded) -> Reason | None:
    if thread.is_gone(put.ns, put.parent) or thread.is_gone("", put.under):
        if thread.checkpoint(put.ns, put.id) is None:
            thread.remove(put.ns, {put.id})  # with it goes what goes on from it
        return "gone"
    if not _may(thread, put.token, envelope):
        return "held"
    return None if thread.put(put) else "gone"


def _written(thread: Thread, written: Written, envelope: Recorded) -> Reason | None:
    if thread.is_gone(written.ns, written.id):
        return "gone"
    if not _may(thread, written.token, envelope):
        return "held"
    thread.write(written)
    return None


def _removed(thread: Thread, removed: Removed, envelope: Recorded) -> Reason | None:
    if not _may(thread, removed.token, envelope):
        return "held"
    for ns, ids in removed.ids.items():
        thread.remove(ns, set(ids))
    return None


def _pruned(thread: Thread, pruned: Pruned, envelope: Recorded) -> Reason | None:
    if not _may(thread, pruned.token, envelope):
        return "held"
    for ns, space in thread.namespaces.items():
        thread.remove(ns, set(space.ids).difference(pruned.kept.get(ns, ())))
        for id, each in space.checkpoints.items():
            if each.parent is not None and each.parent not in space.checkpoints:
                space.checkpoints[id] = replace(each, parent=None)
    return None


def _part(thread: Thread, part: Part, envelope: Recorded) -> None:
    thread.copying.setdefault(part.copy, []).append(part.data)


def _copied(thread: Thread, copied: Copied, envelope: Recorded) -> Reason | None:
    parts = thread.copying.pop(copied.copy, [])
    if not _may(thread, copied.token, envelope):
        return "held"
    if len(parts) != copied.parts:
        return "gone"
    thread.take(b"".join(parts))
    return None


def _held(thread: Thread, held: Held, envelope: Recorded) -> Reason | None:
    at, hold = envelope.recorded_at, thread.hold
    is_own = hold is not None and hold.token == held.token
    if held.renews and not is_own:
        return "held"
    if hold is not None and not (is_own or held.takes or at > hold.until):
        return "held"
    thread.hold = Hold(held.token, held.thread, held.holder, held.lease, at + held.lease)
    return None


def _released(thread: Thread, released: Released, envelope: Recorded) -> Reason | None:
    if thread.hold is None or thread.hold.token != released.token:
        return "held"
    thread.hold = None
    return None


def _may(thread: Thread, token: str, envelope: Recorded) -> bool:
    """Whether a run may write to the thread. The lease of one that holds it begins anew."""
    hold = thread.hold
    if hold is None:
        return not token
    at = envelope.recorded_at
    if not thread.admits(token, at):
        return False
    # Without a token it is from here on as if the run that held it had ended.
    thread.hold = replace(hold, until=at + hold.lease) if token else None
    return True


_APPLY: Final[dict[type, Callable[[Thread, Any, Recorded], Reason | None]]] = {
    Put: _put,
    Written: _written,
    Removed: _removed,
    Pruned: _pruned,
    Held: _held,
    Released: _released,
    Part: _part,
    Copied: _copied,
}


kind: Final = Kind(
    "checkpoints",
    keys=("session_id",),
    owner="session",
    records={
        PUT: Put,
        WRITTEN: Written,
        REMOVED: Removed,
        PRUNED: Pruned,
        HELD: Held,
        RELEASED: Released,
        PART: Part,
        COPIED: Copied,
    },
    fold=Fold(
        Thread,
        _apply,
        keep=Thread.keep,
        restore=Thread.restore,
        early_snapshots=True,
        remains=(Thread.remains, Thread.after_clearing),
    ),
    version=3,
    id=field_id("key"),
    redacted={PUT: ("values", "metadata"), WRITTEN: ("values",)},
    shown=shown,
)
