"""The folds, without a server: repeats, clearing, and each projection's own rule."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

import foldlog
from foldlog import codec
from foldlog.envelope import CLEARED, Recorded, upsert_id
from foldlog_projections import bindings, pauses
from foldlog_projections.bindings import Key
from foldlog_projections.fold import Cleared, start, step
from foldlog_projections.registry import FAMILIES, KINDS
from foldlog_projections.rh_agents.statelist import kind as statelist
from foldlog_projections.routes import kind as routes
from foldlog_projections.tasks import kind as tasks
from foldlog_projections.traces import kind as traces
from foldlog_projections.updates import kind as updates
from tests.support.folding import fold


def envelope(id: str, payload: Any = None, *, seq: int = 1, type: str = "x.saved") -> Recorded:
    raw = msgspec.msgpack.encode(payload)
    return Recorded(id, type, 1, 0.0, raw, None, seq, 0, "2026-01-01T00:00:00Z")


def cleared(**fields: Any) -> Recorded:
    payload = msgspec.msgpack.encode(Cleared(**fields))
    return Recorded("c", CLEARED, 1, 0.0, payload, None, 9, 0, "2026-01-01T00:00:00Z")


def drafted(item: Recorded, n: int, writer: str = "w") -> Recorded:
    """An envelope with the counter of its writer."""
    return msgspec.structs.replace(item, writer=writer, n=n)


PAYLOADS = {
    "a2alist": {"task_id": "t", "context_id": "c", "state": "s"},
    "a2atasks": {"version": 1, "owner": "o", "context_id": "c", "state": "s"},
    "adkstates": {"delta": {"k": 1}},
    "agentlist": {"scope": "a/1"},
    "agentstates": {"changes": [{"key": "k", "delta": [0, {"n": 1}]}]},
    "belongings": {"kind": "memory", "keys": ["k"]},
    "bindings": {"context_id": None, "task_id": "t"},
    "conversations": {"revision": "r", "head": None, "record": {}, "carried": {}},
    "langgraphitems": {"key": "k", "value": 1},
    "langgraphnamespaces": {"labels": ["a", "b"]},
    "lineage": {"session_id": "s", "position": "@1"},
    "processes": {"lease": 1.0, "number": 1, "host": "h", "pid": 1},
    "queues": {"session_id": "s", "run": "r", "function": "f", "queue": "q"},
    "routes": {"trace_id": "x", "context_id": None, "task_id": "t"},
    "runs": {"epoch": 1, "tenure": "t", "process": "p", "session_id": "s", "host": "h", "pid": 1},
    "schedules": {
        "name": "n",
        "cron": "* * * * *",
        "zone": "UTC",
        "function": "f",
        "arguments": {},
        "session_id": "",
        "queue": "q",
        "next": 1.0,
    },
    "session": {"event_id": "e", "worker": "w"},
    "checkpoints": {
        "key": "k",
        "id": "c",
        "rest": [None, b"\x80"],
        "metadata": [None, b"\x80"],
        "versions": {"a": 1},
        "values": {"a": ["msgpack", b"\x91", [b"x"], None]},
    },
    "messages": {"id": "m", "format": "plain", "body": 1},
    "statelist": {"state_id": "s", "status": "running"},
    "states": {"delta": [0, {"state_id": "s"}]},
    "stateartifacts": {"sha256": "", "codec": "c"},
    "steering": {"task_id": "t"},
    "streams": {"id": "s", "content_type": "text/plain"},
    "tasks": {"task_id": "t"},
    "traces": {"trace_id": "t", "content": "c"},
    "artifacts": {"artifact_id": "a", "sha256": "", "size_bytes": 0},
    "updates": {"task_id": "t"},
    "waiting": {"id": "task/s/t/1"},
    "workflowcheckpoints": {"id": "c", "workflow": "w", "timestamp": "", "body": 1},
}
TYPES = {"lineage": "session.forked", "session": "steering.acknowledged"}
"""Of the others it is the first type of the kind's records."""


def saved(kind: Any, id: str, *, seq: int = 1) -> Recorded:
    type = TYPES.get(kind.name, next(iter(kind.records)))
    return envelope(id, PAYLOADS.get(kind.name), seq=seq, type=type)


@pytest.mark.parametrize("projection", KINDS, ids=lambda p: p.name)
def test_an_id_takes_effect_once(projection: Any) -> None:
    one = saved(projection, "1")
    folded = fold(projection, [one])
    before = msgspec.convert(len(folded.seen), int), repr(folded.state)
    assert not step(projection, folded, one)
    assert (len(folded.seen), repr(folded.state)) == before


@pytest.mark.parametrize("projection", KINDS, ids=lambda p: p.name)
def test_a_cleared_subject_drops_late_repeats_alone(projection: Any) -> None:
    held = saved(projection, "1")
    late, anew = drafted(held, 3), drafted(held, 4)
    folded = fold(projection, [late])
    step(projection, folded, cleared(removed={"w": 3}))
    assert folded.state == projection.initial()
    assert not step(projection, folded, late)
    assert folded.state == projection.initial()
    assert step(projection, folded, anew)
    assert step(projection, folded, drafted(saved(projection, "2"), 1, "another"))


def test_an_upsert_of_what_was_cleared_takes_effect_if_it_was_drafted_later() -> None:
    body = msgspec.msgpack.encode({"task_id": "t"})
    one, again = upsert_id(body), upsert_id(body)
    assert one != again
    folded = fold(tasks, [drafted(envelope(one, {"task_id": "t"}), 2)])
    step(tasks, folded, cleared(removed={"w": 2}))
    assert not step(tasks, folded, drafted(envelope(again, {"task_id": "t"}), 1))
    assert not folded.state
    assert step(tasks, folded, drafted(envelope(again, {"task_id": "t"}), 3))


def test_what_an_earlier_version_refused_is_refused_to_those_who_did_not_know() -> None:
    ids = ("1", "2", "3")
    hashes = [hashlib.blake2b(id.encode(), digest_size=8).digest() for id in ids]
    folded = start(tasks)
    for part in (hashes[:2], hashes[2:]):  # a large clearing was cut in parts
        step(tasks, folded, cleared(refused=b"".join(part)))
    for id in ids:
        assert not step(tasks, folded, envelope(id, {"task_id": "t"}))
    assert step(tasks, folded, envelope("4", {"task_id": "t"}))
    knows = msgspec.structs.replace(envelope("1", {"task_id": "t"}), known=9)
    assert step(tasks, folded, knows)


def test_an_id_with_other_content_is_noted_and_has_no_effect() -> None:
    one = envelope("1", {"task_id": "t", "content": 1}, type="update.saved")
    other = drafted(envelope("1", {"task_id": "t", "content": 2}, type="update.saved"), 7)
    folded = fold(updates, [one])
    assert not step(updates, folded, drafted(one, 6))
    assert not folded.conflicts
    assert not step(updates, folded, other)
    assert folded.conflicts["w", 7].id == "1"
    assert [each.id for each in folded.state] == ["1"]


def test_a_list_forgets_the_entries_that_are_gone() -> None:
    folded = start(statelist)
    for n in range(0, 200, 2):
        item = {"state_id": f"{n}", "status": "running"}
        step(statelist, folded, drafted(envelope(f"{n}", item, type="state.listed"), n))
        gone = envelope(f"{n + 1}", {"state_id": f"{n}"}, type="state.unlisted")
        step(statelist, folded, drafted(gone, n + 1))
    assert not folded.newest
    again = {"state_id": "0", "status": "done"}
    step(statelist, folded, drafted(envelope("again", again, type="state.listed"), 400))
    late = drafted(envelope("late", {"state_id": "0"}, type="state.unlisted"), 300)
    assert not step(statelist, folded, late)
    assert list(folded.state) == ["0"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=30))
def test_tasks_keep_the_order_of_first_saves(saves: list[tuple[str, int]]) -> None:
    log = [
        envelope(f"{n}", {"task_id": task, "value": value}) for n, (task, value) in enumerate(saves)
    ]
    state = fold(tasks, log).state
    assert list(state) == list(dict.fromkeys(task for task, _ in saves))
    last = dict(saves)
    assert {t: msgspec.msgpack.decode(e.payload)["value"] for t, e in state.items()} == last


@given(st.lists(st.sampled_from("abcd"), max_size=30))
def test_traces_end_with_the_last_saved(saves: list[str]) -> None:
    log = [
        envelope(f"{n}", {"trace_id": trace, "content": ""}, type="trace.saved")
        for n, trace in enumerate(saves)
    ]
    expected = list(dict.fromkeys(reversed(saves)))
    assert list(reversed(fold(traces, log).state)) == expected


def test_routes_remember_first_place_and_last_save() -> None:
    route = {"trace_id": "x", "context_id": None, "task_id": "1"}
    other = {"trace_id": "x", "context_id": None, "task_id": "2"}
    log = [
        envelope(f"{seq}", each, seq=seq, type="route.saved")
        for seq, each in enumerate((route, other, route), 1)
    ]
    assert [(r.task_id, seq) for r, seq in fold(routes, log).state.items()] == [("1", 3), ("2", 2)]


def test_a_terminal_mark_ends_a_binding_until_it_is_saved_again() -> None:
    key = {"context_id": None, "task_id": "t"}
    saved, ended = envelope("1", key), envelope("2", key, type=bindings.TERMINAL)
    assert fold(bindings.kind, [ended]).state == {}
    assert fold(bindings.kind, [saved, ended]).state[Key(None, "t")].ended
    again = envelope("3", key)
    assert not fold(bindings.kind, [saved, ended, again]).state[Key(None, "t")].ended


def test_a_consumed_pause_comes_back_only_with_new_content() -> None:
    first, second = upsert_id(b"first"), upsert_id(b"second")
    log = [envelope(first), envelope(second), envelope("c", type=pauses.CONSUMED)]
    assert fold(pauses.kind, log[:2]).state.waiting == log[1]
    assert fold(pauses.kind, log).state.waiting is None
    for late in (upsert_id(b"first"), upsert_id(b"second")):
        assert fold(pauses.kind, [*log, envelope(late)]).state.waiting is None
    third = envelope(upsert_id(b"third"))
    assert fold(pauses.kind, [*log, third]).state.waiting == third


@given(st.data())
def test_a_fold_of_a_prefix_goes_on_to_the_fold_of_the_whole(data: st.DataObject) -> None:
    projection = data.draw(st.sampled_from(KINDS))
    ids = data.draw(st.lists(st.sampled_from("abcdef"), max_size=20))
    log = [saved(projection, id, seq=n) for n, id in enumerate(ids, 1)]
    cut = data.draw(st.integers(0, len(log)))
    folded = fold(projection, log[:cut])
    for item in log[cut:]:
        step(projection, folded, item)
    whole = fold(projection, log)
    assert (folded.state, folded.seen) == (whole.state, whole.seen)


class Noted(msgspec.Struct, frozen=True):
    at: int
    value: Any


@pytest.mark.parametrize(
    ("takes", "expected"), [("record", (1, 2)), ("native", codec.to_native((1, 2), "value"))]
)
def test_a_fold_gets_the_record_of_a_known_type(takes: Any, expected: Any) -> None:
    kind = foldlog.Kind(
        "noted",
        keys=("k",),
        records={"note.saved": Noted},
        fold=foldlog.Fold(dict, lambda state, note, _: state | {note.at: note.value}, takes=takes),
    )
    noted = {"at": 5, "value": codec.to_native((1, 2), "value")}
    assert fold(kind, [envelope("1", noted, type="note.saved")]).state == {5: expected}
    with pytest.raises(msgspec.ValidationError, match="is no record of noted"):
        fold(kind, [envelope("1", noted, type="note.lost")])


def _by_shade(state: dict[str, Recorded], record: Any, envelope: Recorded) -> dict[str, Recorded]:
    return state | {record.shade_name: envelope}


class Shade(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    value: int = 0
    shade_name: str = "grey"


class Tint(msgspec.Struct, frozen=True, omit_defaults=True):
    shade_name: str = "white"


@pytest.mark.parametrize(
    "fold_", [foldlog.last_by("shade_name"), foldlog.Fold(dict, _by_shade, replaces="shade_name")]
)
def test_a_field_that_a_record_leaves_out_has_its_default(fold_: foldlog.Fold[Any]) -> None:
    kind = foldlog.Kind("a", keys=("k",), records={"shade": Shade, "tint": Tint}, fold=fold_)
    records = Shade(1), Shade(2, "red"), Tint(), Shade(3), Tint("red")
    log = [
        msgspec.structs.replace(
            envelope(str(at), each, seq=at, type=kind.type_of(each)), writer="w", n=at
        )
        for at, each in enumerate(records)
    ]
    found = fold(kind, log).state
    assert {shade: each.seq for shade, each in found.items()} == {"grey": 3, "red": 4, "white": 2}


@pytest.mark.parametrize(
    "kind", [foldlog.Kind("a", of=routes, fold=foldlog.last_by("task_id")), routes, traces]
)
def test_a_state_of_a_declared_type_is_kept_and_restored(kind: foldlog.Kind[Any]) -> None:
    state = fold(kind, [saved(kind.of or kind, "1")]).state
    assert kind.restore(kind.keep(state)) == state != kind.initial()


def test_a_fold_that_takes_a_field_says_which() -> None:
    with pytest.raises(foldlog.ConfigurationError, match="needs replaces="):
        foldlog.Kind("a", keys=("k",), fold=foldlog.Fold(dict, _by_shade, takes="field"))


def test_families_are_named_for_their_projection() -> None:
    assert set(FAMILIES) == {projection.name for projection in KINDS}


@pytest.mark.parametrize("kind", [each for each in KINDS if each.owner], ids=lambda k: k.name)
def test_a_view_of_nothing_is_false(kind: foldlog.Kind[Any]) -> None:
    """So a session that was erased is not on the list of sessions."""
    assert not kind.initial()
