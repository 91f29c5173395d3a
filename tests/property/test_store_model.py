"""A store against the reference model: on the in-memory log at length, on a server for a while."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.machine import StoreMachine
from tests.support.stores import Backend, EmbeddedBackend, MemoryBackend

# A run's length is set by its count of examples, never by a clock.
BASE = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    print_blob=True,
)


class MemoryMachine(StoreMachine):
    def make_backend(self) -> Backend:
        return MemoryBackend()


def test_the_store_on_the_in_memory_log() -> None:
    run_state_machine_as_test(
        MemoryMachine, settings=settings(BASE, max_examples=75, stateful_step_count=50)
    )


@pytest.mark.long
def test_the_store_on_the_embedded_server(embedded_path: Path) -> None:
    class EmbeddedMachine(StoreMachine):
        def make_backend(self) -> Backend:
            return EmbeddedBackend(embedded_path)

    run_state_machine_as_test(
        EmbeddedMachine, settings=settings(BASE, max_examples=15, stateful_step_count=25)
    )
