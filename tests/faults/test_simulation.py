"""Runs over a simulated log, and over the real one on a simulated wire: a seed makes a run.

What a failing run did is found again with `live(seed, world)`.
"""

from __future__ import annotations

import pytest

from tests.faults.checker import judge
from tests.faults.history import AnyOp, History
from tests.faults.simulation.life import World, live

FEW = 10
MANY = 2000
CHUNK = 250


@pytest.mark.parametrize("world", ["port", "wire"])
def test_a_seed_makes_the_same_run_each_time(world: World) -> None:
    for seed in (3, 4):
        assert told(live(seed, world)) == told(live(seed, world))


def told(history: History) -> tuple[list[AnyOp], dict[str, list[tuple[int, str]]]]:
    log = {subject: [(e.seq, e.token) for e in found] for subject, found in history.log.items()}
    for op in history.ops:
        op.error = ""  # upserts have ids of their own each time, and errors quote them
        if hasattr(op, "named"):
            op.named = None
    return history.ops, log


@pytest.mark.parametrize("world", ["port", "wire"])
def test_whatever_fails_the_promises_hold(world: World) -> None:
    assert broken(range(FEW), world) == {}


@pytest.mark.long
@pytest.mark.parametrize("world", ["port", "wire"])
@pytest.mark.parametrize("first", range(FEW, MANY, CHUNK))
def test_whatever_fails_the_promises_hold_2000_times(world: World, first: int) -> None:
    assert broken(range(first, min(first + CHUNK, MANY)), world) == {}


@pytest.mark.long
def test_everything_that_can_fail_does() -> None:
    runs = [live(seed, "port") for seed in range(240)]
    ends = {(type(op).__name__, op.outcome) for run in runs for op in run.ops}
    assert {("Save", "ok"), ("Save", "refused"), ("Save", "unknown"), ("Save", "pending")} <= ends
    assert {("Swap", "refused"), ("Swap", "unknown"), ("Resume", "unknown")} <= ends
    assert {("Read", "refused"), ("Watch", "refused")} <= ends


def broken(seeds: range, world: World) -> dict[int, object]:
    """By seed, what was broken."""
    judged = {seed: judge(live(seed, world)) for seed in seeds}
    return {seed: violations for seed, violations in judged.items() if violations}
