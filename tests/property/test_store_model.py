"""A store against the reference model: on the in-memory log at length, on a server for a while."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.property.machine import StoreMachine
from tests.support.stores import Backend, EmbeddedBackend, MemoryBackend

BASE = settings(
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    print_blob=True,
)


class MemoryMachine(StoreMachine):
    def make_backend(self) -> Backend:
        return MemoryBackend()


@pytest.mark.parametrize("examples", [10, pytest.param(100, marks=pytest.mark.long)])
def test_the_store_on_the_in_memory_log(examples: int) -> None:
    run_state_machine_as_test(
        MemoryMachine, settings=settings(BASE, max_examples=examples, stateful_step_count=50)
    )


@pytest.mark.parametrize("examples", [2, pytest.param(15, marks=pytest.mark.long)])
def test_the_store_on_the_embedded_server(embedded_path: Path, examples: int) -> None:
    class EmbeddedMachine(StoreMachine):
        def make_backend(self) -> Backend:
            return EmbeddedBackend(embedded_path)

    run_state_machine_as_test(
        EmbeddedMachine, settings=settings(BASE, max_examples=examples, stateful_step_count=25)
    )
