"""A thread that was restored from a snapshot answers as the one that was folded from the log."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import example, given, strategies as st

from foldlog.envelope import Recorded
from foldlog_projections.langgraph.checkpointrecords import (
    Pruned,
    Put,
    Removed,
    Value,
    Write,
    Written,
)
from foldlog_projections.langgraph.checkpoints import kind
from foldlog_projections.langgraph.thread import Thread

NAMES = ("", "child:1")
VERSIONS = (1, 2, "#1.5", "#2.5")
PLAIN = (None, b"\x80")

_name = st.sampled_from(("", "", NAMES[1]))
_id = st.sampled_from("01234")
_versions = st.sampled_from(VERSIONS)
_values = st.tuples(_versions, st.none() | st.tuples(st.binary(min_size=1, max_size=3), _versions))
_STEPS = st.one_of(
    *[st.tuples(st.just("put"), _name, _id, _id, st.dictionaries(st.sampled_from("ab"), _values))]
    * 4,
    st.tuples(st.just("write"), _name, _id, st.sampled_from("st"), st.integers(-1, 1)),
    st.tuples(st.sampled_from(("remove", "prune")), _name, _id, st.none(), st.none()),
)


def record_of(thread: Thread, number: int, step: tuple[Any, ...]) -> Any:
    """A record that a saver may make; what it refers to is often there."""
    what, ns, id, other, more = step
    key, spaces = f"{number}", thread.namespaces
    if what == "write":
        return Written(key, id, other, (Write(more, "a", "f", key.encode()),), ns)
    if what != "put":
        of = Removed if what == "remove" else Pruned
        return of(key, {ns: (id,)})
    base = other if ns in spaces and other in spaces[ns].checkpoints else ""
    return Put(
        key,
        id,
        PLAIN,
        (None, key.encode()),
        ns,
        base or None,
        base,
        versions={channel: version for channel, (version, _) in more.items()},
        dropped=("b",) if number % 5 == 0 else (),
        seen={"node": {"a": number}} if number % 2 else {},
        values={
            channel: Value("bytes", b"", (value[0],), value[1] if base and number % 3 else None)
            for channel, (_, value) in more.items()
            if value is not None
        },
    )


def apply(thread: Thread, record: msgspec.Struct, number: int) -> None:
    body, time = msgspec.msgpack.encode(record), "2026-01-01T00:00:00Z"
    kind.apply(
        thread, Recorded(f"{number}", kind.type_of(record), 1, 0.0, body, None, number + 1, 0, time)
    )


def shown(thread: Thread, ns: str, id: str | None) -> Any:
    found = thread.checkpoint(ns, id)
    if found is None:
        return thread.is_gone(ns, id)
    row = thread.row(ns, found)
    return found, {name: body.data for name, body in row.values.items()}, row.writes


def put(id: str, base: str, version: Any, value: Any = None) -> tuple[Any, ...]:
    return "put", "", id, base, {"a": (version, value)}


FIRST = (put("0", "", 1, (b"x", 1)), False, None)
WRITE = (("write", "", "0", "t", 0), False, None)
SECOND = (put("1", "0", "#1.5", (b"y", 1)), True, None)
ASKED = ("", "0")


# What goes on from a restored thread refers to:
@example([FIRST, SECOND, (put("2", "1", 1.0), False, None)])  # an older value
@example([FIRST, SECOND, (put("2", "1", "#2.5", (b"z", 1)), False, None)])  # what changed in one
@example([FIRST, SECOND, (put("2", "0", "#2.5"), False, None)])  # an older checkpoint
@example([FIRST, SECOND, (WRITE[0], False, ASKED)])  # or is written after one
@example([FIRST, WRITE, SECOND, (put("0", "1", "#2.5"), False, ASKED)])  # or in the place of one
@given(
    st.lists(
        st.tuples(
            _STEPS,
            st.sampled_from((True, False, False)),
            st.one_of(*[st.none()] * 4, st.tuples(_name, _id)),
        ),
        max_size=30,
    )
)
def test_a_restored_thread_answers_as_a_folded_one(steps: list[Any]) -> None:
    folded, restored = Thread(), Thread()
    for number, (step, is_restored, asked) in enumerate(steps):
        record = record_of(folded, number, step)
        apply(folded, record, number)
        apply(restored, record, number)
        assert restored.refused == folded.refused
        for ns in NAMES:
            assert shown(restored, ns, None) == shown(folded, ns, None)
        if asked is not None:
            assert shown(restored, *asked) == shown(folded, *asked)
        assert bool(restored) == bool(folded)
        if is_restored:
            kept = folded.keep()
            restored = Thread.restore(kept)
            assert Thread.restore(kept).keep() == kept
    assert restored == folded
    assert restored.remains() == folded.remains()
