"""The property of promise 0 finds each planted bug, by what it does and not by chance."""

from __future__ import annotations

import re

import pytest

from tests.property.promise import broken
from tests.property.promise_planted import PLANTED
from tests.property.promise_steps import steps_of

SEEDS = range(150)
"""Runs until a bug must have shown."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    bug = PLANTED[name]
    with bug.plant():
        for seed in SEEDS:
            found = broken(steps_of(seed))
            if found is not None and re.search(bug.symptom, found[1]):
                return
    pytest.fail(f"{len(SEEDS)} runs, and none says {bug.symptom!r}")
