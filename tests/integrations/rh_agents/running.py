"""What the tests of executions run, and how they look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import foldlog
from foldlog.integrations.rh_agents import Execution, ExecutionEvent, StateBackend, StateSnapshot


class Steps:
    """Steps that remember having been called."""

    def __init__(self) -> None:
        self.called: list[str] = []

    def giving(self, name: str, result: Any) -> Callable[[], Awaitable[Any]]:
        async def step() -> Any:
            self.called.append(name)
            return result

        return step

    def raising(self, name: str, error: BaseException) -> Callable[[], Awaitable[Any]]:
        async def step() -> Any:
            self.called.append(name)
            raise error

        return step


class Bus:
    """An event bus that keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[ExecutionEvent] = []

    async def publish(self, told: ExecutionEvent) -> None:
        self.heard.append(told)

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(each.address, each.execution_status.value) for each in self.heard]


async def answered(store: foldlog.Store, answer: Any) -> None:
    """Answer the one question that waits."""
    [item] = await store.waiting()
    await store.answer(item.id, answer)


async def loaded(store: foldlog.Store, state_id: str) -> StateSnapshot:
    found = await StateBackend(store).load_state(state_id)
    assert found is not None
    return found


def history(found: StateSnapshot) -> list[tuple[str, str]]:
    """A snapshot's events as address and status."""
    events = found.execution_state["history"]["events"]
    return [(each["address"], each["execution_status"]) for each in events]


async def stopped_within(store: foldlog.Store, state_id: str, address: str) -> None:
    """Leave a step begun and not ended, as a process does that dies in it."""
    with pytest.raises(asyncio.CancelledError):
        async with StateBackend(store).execution(state_id) as run:
            await run.step(address, Steps().raising(address, asyncio.CancelledError()))


async def pipeline(run: Execution, steps: Steps, *names: str) -> None:
    for name in names:
        await run.step(name, steps.giving(name, f"{name} {len(steps.called)}"))


async def booking(store: foldlog.Store, steps: Steps, **options: Any) -> Any:
    async with StateBackend(store).execution("s", **options) as run:
        await run.step("search", steps.giving("search", "flight 7"))
        run.storage["seen"] = True
        answer = await run.ask("approve", {"question": "flight 7?"})
        return await run.step("book", steps.giving("book", answer))
