"""Broken in what they keep of a payload, wherever it is kept."""

from __future__ import annotations

import math
from typing import Any

from foldlog.models import StoredEvent
from tests.testing.broken.registry import each, found_by
from tests.testing.copying import payloads_rewritten
from tests.testing.plain_artifacts import PlainArtifacts
from tests.testing.plain_store import PlainStore

EXACT = each(
    "ExactPayloads",
    [
        "test_bindings_are_exact",
        "test_events_are_exact",
        "test_memory_is_exact",
        "test_pauses_are_exact",
        "test_planner_events_are_exact",
        "test_tasks_are_exact",
        "test_trajectories_are_exact",
        "test_updates_are_exact",
    ],
)


class _Rewriting(PlainStore):
    """Changes the payloads that it keeps."""

    def taken(self, value: Any) -> Any:
        kept = super().taken(value)
        is_payload = isinstance(kept, dict)
        return self.rewritten(kept) if is_payload else payloads_rewritten(kept, self.rewritten)

    def rewritten(self, payload: Any) -> Any:
        match payload:
            case dict():
                return self.mapping(payload)
            case list():
                return [self.rewritten(item) for item in payload]
        return self.leaf(payload)

    def mapping(self, payload: dict[Any, Any]) -> dict[Any, Any]:
        return {key: self.rewritten(item) for key, item in payload.items()}

    def leaf(self, value: Any) -> Any:
        return value


@found_by(
    "ExactPayloads.test_bytes_and_their_text_are_different_events",
    "ExactPayloads.test_keys_that_are_no_strings_are_exact",
    *EXACT,
)
class WritesJson(_Rewriting):
    """Loses what JSON lacks: NaN becomes null, bytes become text."""

    def mapping(self, payload: dict[Any, Any]) -> dict[Any, Any]:
        return super().mapping({str(key): item for key, item in payload.items()})

    def leaf(self, value: Any) -> Any:
        match value:
            case tuple() | set() | frozenset():
                return self.rewritten(list(value))
            case bytes():
                return value.decode("latin-1")
            case float() if math.isnan(value):
                return None
        return value


@found_by(
    "MemoryState.test_memory_comes_back_without_loss",
    "PlannerEvents.test_extras_come_back_exactly",
    "PlannerState.test_a_pause_comes_back_without_loss",
    "StateStore.test_payloads_come_back_exactly",
    "Tasks.test_results_come_back_exactly",
    "Trajectories.test_metadata_comes_back_exactly",
    "Updates.test_any_content_is_held",
    *EXACT,
)
class KeepsFifteenDigits(_Rewriting):
    def leaf(self, value: Any) -> Any:
        return float(f"{value:.15g}") if isinstance(value, float) else value


@found_by(
    *EXACT,
)
class KeepsNumbersAsJsonb(_Rewriting):
    """Zero without a sign, and what is large and whole without its point: not the kit's affair."""

    def leaf(self, value: Any) -> Any:
        match value:
            case float() if math.isfinite(value) and abs(value) >= 1e16:
                return int(value)
            case float() if value == 0:
                return 0.0
        return value


@found_by(
    "MemoryState.test_memory_comes_back_as_it_was",
    "MemoryState.test_memory_comes_back_without_loss",
    "MemoryState.test_memory_survives_a_restart",
    "PlannerEvents.test_extras_come_back_exactly",
    "PlannerState.test_a_pause_comes_back_as_it_was",
    "PlannerState.test_a_pause_comes_back_without_loss",
    "PlannerState.test_a_pause_saved_again_is_one_pause",
    "PlannerState.test_a_pause_survives_a_restart",
    "PlannerState.test_an_expired_pause_is_none",
    "PlannerState.test_exactly_one_of_many_callers_resumes",
    "PlannerState.test_exactly_one_of_many_stores_resumes",
    "StateStore.test_any_mapping_serves_as_a_payload",
    "StateStore.test_events_that_differ_in_any_field_are_different",
    "StateStore.test_payloads_come_back_exactly",
    "Steering.test_a_harmless_payload_is_left_alone",
    "Tasks.test_a_task_comes_back_as_it_was",
    "Tasks.test_a_task_survives_a_restart",
    "Tasks.test_results_come_back_exactly",
    "Tasks.test_the_context_it_was_spawned_with_is_kept",
    "Trajectories.test_metadata_comes_back_exactly",
    "Updates.test_any_content_is_held",
    *EXACT,
)
class DropsNulls(_Rewriting):
    """`exclude_none=True`."""

    def mapping(self, payload: dict[Any, Any]) -> dict[Any, Any]:
        return super().mapping({key: item for key, item in payload.items() if item is not None})


@found_by(
    "ExactPayloads.test_keys_keep_their_order",
)
class SortsKeys(_Rewriting):
    """`sort_keys=True`, where it is kept and not only where it is compared."""

    def mapping(self, payload: dict[Any, Any]) -> dict[Any, Any]:
        return super().mapping(dict(sorted(payload.items(), key=lambda item: str(item[0]))))


@found_by(
    "MemoryState.test_empty_memory_is_not_missing_memory",
    "PlannerState.test_an_empty_pause_is_not_a_missing_one",
)
class TakesEmptyForMissing(PlainStore):
    """`state or None`."""

    async def load_memory_state(self, key: str) -> dict[str, Any] | None:
        return await super().load_memory_state(key) or None

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        return await super().load_planner_state(token) or None


@found_by(
    "Artifacts.test_any_size_is_held",
    "Artifacts.test_artifacts_survive_a_restart",
    "StateStore.test_a_payload_of_a_megabyte_is_held",
)
class RefusesWhatIsLarge(PlainStore):
    """One message each, of a megabyte at most."""

    class Artifacts(PlainArtifacts):
        def encoded(self, data: bytes) -> bytes:
            if len(data) > 1_000_000:
                raise ValueError("maximum payload exceeded")
            return super().encoded(data)

    async def save_runtime_event(self, event: StoredEvent) -> None:
        if len(repr(event).encode()) > 1_000_000:
            raise ValueError("maximum payload exceeded")
        await super().save_runtime_event(event)
