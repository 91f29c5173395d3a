"""PenguiFlow's own in-memory store under the contract kit: where the two differ, by name.

`docs/reference/contract-kit.md` says what that means for a replacement. When PenguiFlow changes one
of them, its test here fails, because it passes. The store persists nothing: restarts are skipped.
"""

from __future__ import annotations

from itertools import product
from typing import Any, ClassVar

import pytest
from penguiflow.artifacts import ArtifactRetentionConfig
from penguiflow.state.in_memory import InMemoryStateStore

from foldlog import testing
from foldlog.testing.retention import LIMITS, OpenWithRetention
from tests.integrations.penguiflow.kit import HAS_CONVERSATIONS, PenguiFlow

if not HAS_CONVERSATIONS:
    pytest.skip("the list is of a newer PenguiFlow's own store", allow_module_level=True)

SHARED = "what nests deeper than the first level is shared with the caller"
KEPT_ITSELF = "the caller's own object is kept and handed out"
NOT_ONCE = "every retry is one more item"
LAST_PAGE = "a page after a cursor is the last of what follows, not the first"
SLICED = "items[-0:] is everything, and items[-1:] is not nothing"
RETENTION_NAMES = [next(iter(limit)) for limit in LIMITS]

CURSORS = {
    "test_an_id_is_kept_once": NOT_ONCE,
    "test_concurrent_saves_of_one_id_keep_one": NOT_ONCE,
    "test_a_page_is_the_first_after_its_cursor": LAST_PAGE,
    "test_a_filtered_page_is_the_first_after_its_cursor": LAST_PAGE,
    "test_the_default_limit_is_500_after_a_cursor": LAST_PAGE,
    "test_paging_loses_nothing": LAST_PAGE,
    "test_paging_one_task_loses_nothing": LAST_PAGE,
    "test_a_poller_behind_writers_misses_nothing": LAST_PAGE,
    "test_a_limit_below_one_lists_nothing": SLICED,
}


@pytest.fixture
def store() -> InMemoryStateStore:
    return InMemoryStateStore()


@pytest.fixture
def reopen() -> None:
    pytest.skip("a store that keeps nothing: nothing was checked about a restart")


@pytest.fixture
def open_with_retention() -> OpenWithRetention:
    opened: list[InMemoryStateStore] = []

    async def open_store(**limits: Any) -> InMemoryStateStore:
        # Another store would hold nothing of the first one's.
        if not opened:
            retention = ArtifactRetentionConfig(**limits)
            opened.append(InMemoryStateStore(artifact_retention=retention))
        return opened[0]

    return open_store


class TestStateStore(PenguiFlow, testing.StateStoreContract):
    deviations: ClassVar = {
        "test_what_was_saved_may_be_changed_afterwards": KEPT_ITSELF,
        "test_what_was_loaded_may_be_changed": KEPT_ITSELF,
    }


class TestBindings(PenguiFlow, testing.BindingsContract):
    deviations: ClassVar = {
        "test_find_prefers_the_binding_saved_last": "a binding saved again keeps its first place",
        "test_what_was_saved_may_be_changed_afterwards": SHARED,
        "test_what_was_loaded_may_be_changed": SHARED,
    }


class TestPlannerState(PenguiFlow, testing.PlannerStateContract):
    deviations: ClassVar = {
        "test_a_late_retry_does_not_bring_a_taken_pause_back": "a late save is a new pause",
        "test_an_expired_pause_is_none": "pauses do not expire",
        "test_what_was_saved_may_be_changed_afterwards": SHARED,
    }


class TestMemoryState(PenguiFlow, testing.MemoryStateContract):
    deviations: ClassVar = {
        "test_what_was_saved_may_be_changed_afterwards": SHARED,
        "test_what_was_loaded_may_be_changed": SHARED,
    }


class TestTasks(PenguiFlow, testing.TasksContract):
    deviations: ClassVar = {
        "test_what_was_saved_may_be_changed_afterwards": SHARED,
        "test_what_was_loaded_may_be_changed": SHARED,
    }


class TestUpdates(PenguiFlow, testing.UpdatesContract):
    deviations: ClassVar = CURSORS


class TestSteering(PenguiFlow, testing.SteeringContract):
    deviations: ClassVar = CURSORS | {
        "test_what_json_lacks_is_made_harmless": "NaN is kept, which is no JSON",
        "test_a_lone_surrogate_is_made_harmless": "sanitising raises on it",
    }


class TestTrajectories(PenguiFlow, testing.TrajectoriesContract):
    deviations: ClassVar = {
        "test_a_limit_below_one_lists_nothing": SLICED,
        "test_what_was_saved_may_be_changed_afterwards": SHARED,
        "test_what_was_loaded_may_be_changed": SHARED,
    }


class TestPlannerEvents(PenguiFlow, testing.PlannerEventsContract):
    deviations: ClassVar = {
        "test_saving_an_event_twice_keeps_one": NOT_ONCE,
        "test_what_was_saved_may_be_changed_afterwards": KEPT_ITSELF,
        "test_what_was_loaded_may_be_changed": KEPT_ITSELF,
    }


class TestArtifacts(PenguiFlow, testing.ArtifactsContract):
    deviations: ClassVar = {
        "test_the_same_content_in_two_scopes_is_two_artifacts": (
            "an id is made of namespace and content alone: the last scope takes it over"
        ),
        "test_references_belong_to_the_caller": KEPT_ITSELF,
    }


class TestSessionArtifacts(PenguiFlow, testing.SessionArtifactsContract):
    deviations: ClassVar = {"test_what_was_listed_may_be_changed": KEPT_ITSELF}


class TestRetention(PenguiFlow, testing.RetentionContract):
    deviations: ClassVar = {
        **{
            f"test_lru_evicts_what_was_read_longest_ago[{limit}]": "no limit per trace"
            for limit in ("max_artifacts_per_trace", "max_trace_bytes")
        },
        **{
            f"test_fifo_evicts_the_oldest[{limit}]": "fifo evicts as lru does; no limit per trace"
            for limit in RETENTION_NAMES
        },
        **{
            f"test_none_evicts_nothing_and_refuses[{limit}]": "with none, there are no limits"
            for limit in RETENTION_NAMES
        },
        **{
            f"test_each_session_and_trace_counts_alone[{limit}]": (
                "the same content is one artifact in all sessions; no limit per trace"
            )
            for limit in RETENTION_NAMES
        },
        **{
            f"test_what_can_never_fit_evicts_nothing[{strategy}-{limit}]": (
                "everything is evicted for what is too big, and then it is kept; or no limit"
            )
            for strategy, limit in product(
                ("lru", "fifo", "none"), ("max_session_bytes", "max_trace_bytes")
            )
        },
    }


class TestExactPayloads(PenguiFlow, testing.ExactPayloadsContract):
    deviations: ClassVar = {
        "test_bytes_and_their_text_are_different_events": (
            "events are told apart by their JSON, in which bytes are text and tuples are lists"
        ),
    }


class TestAliases(PenguiFlow, testing.AliasesContract):
    deviations: ClassVar = {
        "test_planner_events_are_saved_by_their_old_name": "save_event takes runtime events only",
    }


def test_every_deviation_names_a_test() -> None:
    """One that does not would never be seen to have gone."""
    for contract in (value for name, value in globals().items() if name.startswith("Test")):
        for name in contract.deviations:
            assert hasattr(contract, name.partition("[")[0]), (contract, name)
