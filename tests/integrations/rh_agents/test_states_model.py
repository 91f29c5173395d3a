"""The StateBackend against a dict: whatever is saved and removed, in whatever order."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, strategies as st

import foldlog
from foldlog.integrations.rh_agents import StateBackend, StateSnapshot, StateStatus
from tests.integrations.rh_agents.build import event, snapshot

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=8,
)
SNAPSHOTS = st.builds(
    lambda state_id, events, storage, tags, status: snapshot(
        state_id, *events, storage=storage, metadata={"tags": tags}, status=status
    ),
    st.sampled_from(["a", "b", "c"]),
    st.lists(st.builds(event, st.sampled_from("xyz"), result=VALUES), max_size=4),
    st.dictionaries(st.text(max_size=2), VALUES, max_size=3),
    st.lists(st.sampled_from(["t", "u"]), max_size=2),
    st.sampled_from(StateStatus),
)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["save", "update"]), SNAPSHOTS),
        st.tuples(st.just("delete"), st.sampled_from(["a", "b", "c"])),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=15,
)


@given(CALLS)
def test_states_are_what_a_dict_would_hold(calls: list[tuple[str, Any]]) -> None:
    asyncio.run(_compare(calls))


async def _compare(calls: list[tuple[str, Any]]) -> None:
    store = foldlog.memory_store()
    model: dict[str, StateSnapshot] = {}
    for call, given_ in calls:
        match call:
            case "save":
                assert await StateBackend(store).save_state(given_)
                model[given_.state_id] = given_
            case "update":
                updated = await StateBackend(store).update_state(given_)
                assert updated is (given_.state_id in model)
                if updated:
                    model[given_.state_id] = given_
            case "delete":
                assert await StateBackend(store).delete_state(given_) is (given_ in model)
                model.pop(given_, None)
            case _:
                store = foldlog.memory_store(log=store._core.log)  # type: ignore[arg-type]
        for state_id in ("a", "b", "c"):
            assert await StateBackend(store).load_state(state_id) == model.get(state_id)
        for status in StateStatus:
            found = await StateBackend(store).list_states(["t"], status)
            expected = {
                state_id
                for state_id, each in model.items()
                if "t" in each.metadata.tags and each.status is status
            }
            assert {each.state_id for each in found} == expected
