"""The StateStore contract as tests: prove your store against it.

Write a fixture `store` that yields an empty store, and subclass one class per capability:

    from foldlog import testing

    class TestRequired(testing.StateStoreContract): ...
    class TestUpdates(testing.UpdatesContract): ...

More fixtures are optional; tests that need one you did not write are skipped and say so.
`reopen` gives an async callable: each call returns another store on the same data, as a second
process or a restart would. `advance_clock` gives a callable that moves the clock by which your
store lets things expire, in seconds. `open_with_retention` is described by `RetentionContract`.
`settle`, for stores that are eventually consistent, gives an async callable that returns once
every store sees what was saved; without it, that is taken to be at once.

Needs pytest and pytest-asyncio (`pip install "foldlog[testing]"`), in strict or auto mode. Each
test's docstring says what it rests on: MUST and SHOULD quote the StateStore specification 2.11,
the RFC it grew from, or PenguiFlow 3.11 for what is younger; "Beyond" is what a store needs in
practice to keep those promises. To leave one out, set it to None in your subclass.
"""

from __future__ import annotations

from pkgutil import iter_modules

from foldlog.errors import ConfigurationError

try:
    import pytest
except ModuleNotFoundError as _error:
    raise ConfigurationError("pytest is not installed: pip install 'foldlog[testing]'") from _error

# Before they are imported: their plain asserts then explain themselves when they fail.
pytest.register_assert_rewrite(*(f"{__name__}.{each.name}" for each in iter_modules(__path__)))

from foldlog.testing.aliases import AliasesContract  # noqa: E402 - see above
from foldlog.testing.artifacts import ArtifactsContract, SessionArtifactsContract  # noqa: E402
from foldlog.testing.base import Contract, Reopen, Settle  # noqa: E402
from foldlog.testing.bindings import BindingsContract  # noqa: E402
from foldlog.testing.build import Build  # noqa: E402
from foldlog.testing.cursors import CursorContract  # noqa: E402
from foldlog.testing.events import StateStoreContract  # noqa: E402
from foldlog.testing.given import given  # noqa: E402
from foldlog.testing.memory import MemoryStateContract  # noqa: E402
from foldlog.testing.pauses import PlannerStateContract  # noqa: E402
from foldlog.testing.payloads import ExactPayloadsContract  # noqa: E402
from foldlog.testing.planner_events import PlannerEventsContract  # noqa: E402
from foldlog.testing.retention import RetentionContract  # noqa: E402
from foldlog.testing.steering import SteeringContract  # noqa: E402
from foldlog.testing.tasks import TasksContract  # noqa: E402
from foldlog.testing.trajectories import TrajectoriesContract  # noqa: E402
from foldlog.testing.updates import UpdatesContract  # noqa: E402
from foldlog.testing.values import (  # noqa: E402
    EXACT_VALUES,
    HOSTILE_IDS,
    HOSTILE_NAMES,
    JSON_VALUES,
)

__all__ = [
    "EXACT_VALUES",
    "HOSTILE_IDS",
    "HOSTILE_NAMES",
    "JSON_VALUES",
    "AliasesContract",
    "ArtifactsContract",
    "BindingsContract",
    "Build",
    "Contract",
    "CursorContract",
    "ExactPayloadsContract",
    "MemoryStateContract",
    "PlannerEventsContract",
    "PlannerStateContract",
    "Reopen",
    "RetentionContract",
    "SessionArtifactsContract",
    "Settle",
    "StateStoreContract",
    "SteeringContract",
    "TasksContract",
    "TrajectoriesContract",
    "UpdatesContract",
    "given",
]
