"""The property of promise 0 finds each planted bug, by what it does and not by chance."""

from __future__ import annotations

import re

import pytest

from tests.property.promise import broken
from tests.property.promise_planted import PLANTED
from tests.property.promise_steps import steps_of

SEEDS = range(150)
"""Runs until a bug must have shown."""


def finds(name: str, seed: int) -> bool:
    """Whether a run shows a bug by its symptom, and holds without it."""
    bug, steps = PLANTED[name], steps_of(seed)
    with bug.plant():
        found = broken(steps)
    return found is not None and re.search(bug.symptom, found[1]) is not None and not broken(steps)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    assert any(finds(name, seed) for seed in SEEDS), f"none says {PLANTED[name].symptom!r}"
