"""The kit finds every bug, where it is, and nothing else; and no test of it is idle."""

from __future__ import annotations

import pytest
import pytest_asyncio

from tests.testing.broken import BROKEN
from tests.testing.broken.nothing import RemembersNothing
from tests.testing.broken.payloads import RefusesWhatIsLarge
from tests.testing.plain_store import PlainStore
from tests.testing.running import CHECKS, Uses, failures

NAMES = {check.name for check in CHECKS}

SEEN_TO_FAIL_NOWHERE: dict[str, str] = {}
"""The tests that no broken store fails, and why none could."""

NOTHING_IS_RIGHT = {
    "StateStore.test_the_required_methods_are_there": "of methods, not of what they do",
    "StateStore.test_saving_a_remote_binding_again_does_not_fail": "no required method reads it",
    "StateStore.test_an_unknown_trace_has_no_history": "asks for what is not there",
    "Bindings.test_an_unknown_router_has_no_bindings": "asks for what is not there",
    "PlannerState.test_a_missing_pause_is_none": "asks for what is not there",
    "MemoryState.test_a_missing_key_is_none": "asks for what is not there",
    "Tasks.test_an_unknown_session_has_no_tasks": "asks for what is not there",
    "Updates.test_an_unknown_session_is_empty": "asks for what is not there",
    "Steering.test_an_unknown_session_is_empty": "asks for what is not there",
    "Trajectories.test_an_unknown_session_has_no_traces": "asks for what is not there",
    "Trajectories.test_an_unknown_trace_is_none": "asks for what is not there",
    "PlannerEvents.test_an_unknown_trace_has_no_planner_events": "asks for what is not there",
}
"""The tests that a store passes which keeps nothing, and why it may."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def uses() -> Uses:
    return await Uses.observed()


async def test_a_correct_store_passes() -> None:
    assert await failures(PlainStore) == set()


@pytest.mark.long
@pytest.mark.parametrize("store", BROKEN, ids=lambda store: store.__name__)
async def test_a_broken_store_fails_where_it_is_broken(store: type[PlainStore], uses: Uses) -> None:
    assert BROKEN[store]
    assert await uses.failures(store) == BROKEN[store]


@pytest.mark.long
async def test_nothing_is_missed_by_running_what_matters() -> None:
    # One that overrides something both of the store and of its artifacts.
    assert await failures(RefusesWhatIsLarge) == BROKEN[RefusesWhatIsLarge]


def test_every_test_is_seen_to_fail() -> None:
    found = set().union(*BROKEN.values())
    assert found - NAMES == set()
    assert NAMES - found == set(SEEN_TO_FAIL_NOWHERE)


async def test_a_store_that_remembers_nothing_passes_next_to_nothing() -> None:
    assert NAMES - await failures(RemembersNothing) == set(NOTHING_IS_RIGHT)
