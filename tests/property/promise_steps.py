"""The steps of promise 0: what a run does, made of a seed."""

from __future__ import annotations

import random
from typing import NamedTuple

from tests.property.promise_model import SHAPES

PROCESSES = 3
STEPS = 30


class Step(NamedTuple):
    """One thing that a process does. Which numbers and names count depends on `what`."""

    what: str
    process: int
    session: int
    saves: tuple[tuple[str, str, str], ...]
    number: int

    def __str__(self) -> str:
        used = self.saves[: _SAVES.get(self.what, 1)]
        saves = ", ".join(f"{shape} {id}={content}" for shape, id, content in used)
        return f"p{self.process} {self.what} s{self.session} [{saves}] #{self.number}"


_SAVES = {"atomic": 3, "abandon": 3} | dict.fromkeys(
    ("clear", "erase", "replay", "fork", "restore", "reopen", "leave", "return"), 0
)
"""How many of a step's saves count; of those not named here, the first."""

_WEIGHTS = {
    "save": 30,
    "repeat": 14,
    "atomic": 8,
    "abandon": 2,
    "decide": 12,
    "transact": 3,
    "clear": 7,
    "erase": 3,
    "delete": 5,
    "replay": 12,
    "fork": 6,
    "restore": 2,
    "reopen": 3,
    "leave": 4,
    "return": 3,
    "read": 5,
    "race": 4,
}


def steps_of(seed: int) -> list[Step]:
    """Return the steps of a run."""
    rng = random.Random(seed)
    shapes = rng.sample(sorted(SHAPES), rng.choice([2, 4, 14]))  # few views are met more often

    def save() -> tuple[str, str, str]:
        return rng.choice(shapes), rng.choice("ab"), rng.choice("xxy")

    def step(what: str) -> Step:
        saves = tuple(save() for _ in range(rng.randint(2, 3)))
        return Step(what, rng.randrange(PROCESSES), rng.randrange(8), saves, rng.randrange(1000))

    return [step(what) for what in rng.choices([*_WEIGHTS], [*_WEIGHTS.values()], k=STEPS)]
