"""How a memory fares when its summarizer fails."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

import foldlog
from foldlog.sessions import (
    MemoryHealth,
    ShortTermMemory,
)
from tests.sessions.remembering import config, messages, summed, turn


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Moody:
    """A summarizer that does as it is told."""

    def __init__(self) -> None:
        self.fails = False
        self.asked = 0

    async def __call__(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.asked += 1
        if self.fails:
            raise RuntimeError("the model is away")
        return await summed(request)


async def moody(
    store: foldlog.Store, summarizer: Moody, clock: Clock, **options: Any
) -> tuple[ShortTermMemory, list[tuple[str, str]]]:
    """A memory without recent turns, and the ways that its health takes."""

    ways: list[tuple[str, str]] = []

    async def on_health(before: MemoryHealth, after: MemoryHealth) -> None:
        ways.append((before.value, after.value))

    memory = ShortTermMemory(
        config(full_zone_turns=0, **options),
        store,
        "k",
        summarizer=summarizer,
        on_health=on_health,
        clock=clock,
    )
    await memory.hydrate()
    return memory, ways


async def test_health_goes_the_ways_that_are_drawn(store: foldlog.Store) -> None:
    summarizer, clock = Moody(), Clock()
    memory, ways = await moody(
        store, summarizer, clock, retry_attempts=2, retry_backoff_base_s=10.0
    )
    summarizer.fails = True
    await memory.add_turn(turn(0))
    await memory.flush()
    assert (memory.health, memory.state.due_at) == (MemoryHealth.RETRY, 1010.0)
    await memory.flush()
    assert summarizer.asked == 1, "not before its time"
    clock.now = 1010.0
    await memory.flush()
    assert (memory.health, memory.state.due_at) == (MemoryHealth.RETRY, 1030.0)
    clock.now = 1030.0
    await memory.flush()
    assert (memory.health, memory.state.due_at) == (MemoryHealth.DEGRADED, 1060.0)
    assert messages(memory.state.backlog) == ["q0"]
    await memory.add_turn(turn(1))
    clock.now = 1060.0
    await memory.flush()
    assert memory.health is MemoryHealth.DEGRADED
    summarizer.fails = False
    clock.now = 1090.0
    await memory.flush()
    assert (memory.health, memory.state.summary) == (MemoryHealth.HEALTHY, "q0 q1")
    assert ways == [
        ("healthy", "retry"),
        ("retry", "degraded"),
        ("degraded", "recovering"),
        ("recovering", "degraded"),
        ("degraded", "recovering"),
        ("recovering", "healthy"),
    ]
    await memory.close()


async def test_a_retry_that_succeeds_is_healthy_again(store: foldlog.Store) -> None:
    summarizer, clock = Moody(), Clock()
    memory, ways = await moody(store, summarizer, clock, retry_backoff_base_s=10.0)
    summarizer.fails = True
    await memory.add_turn(turn(0))
    await memory.flush()
    summarizer.fails = False
    clock.now += 10
    await memory.flush()
    assert ways == [("healthy", "retry"), ("retry", "healthy")]
    assert (memory.state.attempts, memory.state.due_at) == (0, 0.0)
    await memory.close()


async def test_it_makes_the_next_attempt_by_itself(store: foldlog.Store) -> None:
    summarizer = Moody()
    memory, _ = await moody(store, summarizer, Clock(), retry_attempts=2, retry_backoff_base_s=0.0)
    healed = asyncio.Event()

    async def failing_once(request: Mapping[str, Any]) -> Mapping[str, Any]:
        summarizer.asked += 1
        if summarizer.asked == 1:
            raise RuntimeError
        healed.set()
        return await summed(request)

    memory._summarizer = failing_once
    await memory.add_turn(turn(0))
    async with asyncio.timeout(20):
        await healed.wait()
    await memory.flush()
    assert memory.health is MemoryHealth.HEALTHY
    await memory.close()


async def test_what_a_summarizer_returns_is_looked_at(store: foldlog.Store) -> None:
    async def wrong(request: Mapping[str, Any]) -> Any:
        return {"summary": 7}

    memory, _ = await moody(store, Moody(), Clock(), retry_backoff_base_s=9.0)
    memory._summarizer = wrong
    await memory.add_turn(turn(0))
    await memory.flush()
    assert memory.health is MemoryHealth.RETRY
    await memory.close()


async def test_a_summarizer_that_gives_up_by_itself_has_failed(store: foldlog.Store) -> None:
    async def cancelled(request: Mapping[str, Any]) -> Any:
        raise asyncio.CancelledError

    memory, _ = await moody(store, Moody(), Clock(), retry_backoff_base_s=9.0)
    memory._summarizer = cancelled
    await memory.add_turn(turn(0))
    async with asyncio.timeout(20):
        await memory.flush()
    assert (memory.health, messages(memory.state.pending)) == (MemoryHealth.RETRY, ["q0"])
    await memory.close()


async def test_a_summary_that_cannot_be_estimated_is_not_asked_for_again_at_once(
    store: foldlog.Store,
) -> None:
    def estimate(text: str) -> int:
        if text == "q0":
            raise ValueError(text)
        return len(text)

    summarizer = Moody()
    memory, _ = await moody(
        store, summarizer, Clock(), retry_backoff_base_s=9.0, token_estimator=estimate
    )
    await memory.add_turn(turn(0))
    async with asyncio.timeout(20):
        await memory.flush()
    assert (memory.health, summarizer.asked) == (MemoryHealth.RETRY, 1)
    assert messages(memory.state.pending) == ["q0"]
    await memory.close()


async def test_turns_added_during_a_summary_wait_for_the_next(store: foldlog.Store) -> None:
    entered, release = asyncio.Event(), asyncio.Event()

    async def slow(request: Mapping[str, Any]) -> Mapping[str, Any]:
        entered.set()
        await release.wait()
        return await summed(request)

    memory, _ = await moody(store, Moody(), Clock())
    memory._summarizer = slow
    await memory.add_turn(turn(0))
    await entered.wait()
    await memory.add_turn(turn(1))
    release.set()
    await memory.flush()
    assert (memory.state.summary, memory.state.pending) == ("q0 q1", ())
    await memory.close()


async def test_the_backlog_keeps_the_newest(store: foldlog.Store) -> None:
    summarizer = Moody()
    summarizer.fails = True
    memory, _ = await moody(store, summarizer, Clock(), retry_attempts=0, recovery_backlog_limit=3)
    for number in range(5):
        await memory.add_turn(turn(number))
        await memory.flush()
    assert messages(memory.state.backlog) == ["q2", "q3", "q4"]
    await memory.close()


async def test_a_listener_that_raises_is_heard_of(
    store: foldlog.Store, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(before: MemoryHealth, after: MemoryHealth) -> None:
        raise RuntimeError("deaf")

    summarizer = Moody()
    summarizer.fails = True
    memory, _ = await moody(store, summarizer, Clock(), retry_backoff_base_s=9.0)
    memory._on_health = broken
    await memory.add_turn(turn(0))
    await memory.flush()
    assert memory.health is MemoryHealth.RETRY
    assert "deaf" in caplog.text
    await memory.close()
