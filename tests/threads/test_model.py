"""Whatever is saved, what a thread shows is what a plain dictionary would."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, strategies as st

import foldlog
from foldlog_projections.langgraph.checkpoints import kind
from foldlog_projections.langgraph.namespaces import Row
from foldlog_projections.langgraph.thread import Thread
from tests.threads.support import FORMS, Place, checkpoint, threads

_NAMES = st.sampled_from(["", "child:1"])
_VALUES = st.lists(st.sampled_from(["a", "b", "c" * 30, "d" * 30]), max_size=8)
_ID = st.integers(0, 9)
_STEPS = st.one_of(
    st.tuples(st.just("put"), _NAMES, _ID, st.none() | _ID, _VALUES),
    st.tuples(st.just("write"), _NAMES, _ID, st.sampled_from("ts"), st.integers(-1, 1)),
    st.tuples(st.just("prune"), st.just(""), _ID, st.none(), st.none()),
    st.tuples(st.just("remove"), _NAMES, _ID, st.none(), st.none()),
)


class Model:
    """What a thread should show: checkpoints with their values, and what was written after them."""

    def __init__(self) -> None:
        self.held: dict[tuple[str, str], dict[str, Any]] = {}
        self.writes: dict[tuple[str, str], dict[tuple[str, int], str]] = {}

    def drop(self, gone: set[tuple[str, str]]) -> None:
        for place in gone:
            self.held.pop(place, None)
            self.writes.pop(place, None)

    def prune(self) -> None:
        latest: dict[str, str] = {}
        for ns, id in self.held:
            latest[ns] = max(id, latest.get(ns, ""))
        kept = set(latest.items())
        self.drop(set(self.held) - kept)
        for place in kept:
            parent = self.held[place]["parent"]
            if (place[0], parent) not in self.held:
                self.held[place]["parent"] = None


def shown(rows: list[tuple[str, Row]]) -> dict[tuple[str, str], Any]:
    return {
        (row.ns, row.checkpoint.id): {
            "parent": row.checkpoint.parent,
            "run": FORMS.untyped(row.checkpoint.metadata)["run_id"],
            "values": {name: FORMS.value(body) for name, body in row.values.items()},
            "writes": [FORMS.write(each) for each in row.writes],
        }
        for _, row in rows
    }


@given(st.lists(_STEPS, max_size=30))
def test_a_thread_is_what_was_saved_to_it(steps: list[tuple[Any, ...]]) -> None:
    async def run() -> None:
        model, number = Model(), 0
        async with foldlog.memory_store() as store:
            one = threads(store)
            for what, ns, n, other, value in steps:
                number += 1
                id, place = f"{n}", Place("trip", ns, f"{n}")
                match what:
                    case "put":
                        parent = None if other is None else f"{other}"
                        if parent is not None and (ns, parent) not in model.held:
                            continue  # it was removed, or never there: see test_late.py
                        versions = {"list": f"{number:032}.0.5", "same": 1}
                        saved = checkpoint(id, versions, list=value, same="one")
                        about = {"run_id": f"{number}"}
                        await one.put(Place("trip", ns, parent), saved, about, versions)
                        model.held[ns, id] = {
                            "parent": parent,
                            "run": f"{number}",
                            "values": {"list": value, "same": "one"},
                        }
                    case "write":
                        if (ns, id) not in model.held:
                            continue
                        await one.put_writes(place, [(value, "list", number)], other, "")
                        writes = model.writes.setdefault((ns, id), {})
                        if value < 0 or (other, value) not in writes:
                            writes[other, value] = (other, "list", number)
                    case "prune":
                        await one.prune("trip")
                        model.prune()
                    case "remove" if (ns, id) in model.held:
                        await one.delete_runs([model.held[ns, id]["run"]])
                        model.drop({(ns, id)})
            truth = {
                place: {
                    **each,
                    "writes": [w for _, w in sorted(model.writes.get(place, {}).items())],
                }
                for place, each in model.held.items()
            }
            found = await one.rows(None, None, None, None)
            assert shown(found) == truth
            assert [row.checkpoint.id for _, row in found] == sorted(
                (id for _, id in truth), reverse=True
            )
            for ns in ("", "child:1"):
                latest = max((id for name, id in truth if name == ns), default=None)
                row = await one.get(Place("trip", ns, None))
                assert (row and row.checkpoint.id) == latest
            await one.copy("trip", "copy")
            copied = await one.rows({"configurable": {"thread_id": "copy"}}, None, None, None)
            assert shown(copied) == truth
            state: Thread = await store.view(kind("trip"))
            assert state == await store.view(kind("trip"), lambda thread: thread)
            assert bool(state) == bool(truth)

    asyncio.run(run())
