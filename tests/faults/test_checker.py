"""The judge of every run, judged itself: it finds each planted bug."""

from __future__ import annotations

import pytest

from tests.faults.checker import judge
from tests.faults.planted import PLANTED
from tests.faults.simulation.life import live

SEEDS = range(120)
"""How many runs may pass until a bug has shown. Most need less than ten."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    bug = PLANTED[name]
    with bug.plant():
        for seed in SEEDS:
            found = judge(live(seed, bug.world, faults=bug.faults))
            if {violation.kind for violation in found} & bug.kinds:
                return
    pytest.fail(f"{len(SEEDS)} runs, and no {' or '.join(sorted(bug.kinds))}")


def test_enough_is_planted() -> None:
    kinds = set().union(*(bug.kinds for bug in PLANTED.values()))
    assert len(PLANTED) >= 12
    assert kinds == {
        *("lost", "invented", "order", "doubled", "resumed", "swapped"),
        *("torn", "incomplete", "gap", "untold", "alarm", "problem"),
    }
