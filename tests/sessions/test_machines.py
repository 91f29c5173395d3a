"""The state machines against models of them: tasks with their groups, patches, a memory's health.

Two actors, each with a store of its own, do what they like to one session, also at the same time,
and each may be restarted at every step. What happens at the same time must have happened in some
order.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    run_state_machine_as_test,
)

from tests.sessions.machines.health import HealthMachine
from tests.sessions.machines.patches import PatchMachine
from tests.sessions.machines.tasks import TaskMachine
from tests.support.stores import Backend, EmbeddedBackend

BASE = settings(suppress_health_check=list(HealthCheck), print_blob=True)
MACHINES: list[type[Any]] = [TaskMachine, PatchMachine, HealthMachine]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_machine_on_the_in_memory_log(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(BASE, max_examples=15, stateful_step_count=15)
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_the_machine_on_the_embedded_server(machine: type[Any], embedded_path: Path) -> None:
    class OnServer(machine):  # type: ignore[misc]
        def make_backend(self) -> Backend:
            return EmbeddedBackend(embedded_path)

    run_state_machine_as_test(
        OnServer, settings=settings(BASE, max_examples=2, stateful_step_count=10)
    )


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES)
def test_the_machine_at_length(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(
        machine, settings=settings(BASE, max_examples=250, stateful_step_count=30)
    )
