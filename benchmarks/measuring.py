"""What a run records and what follows from it. Pure: no clock, no I/O."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple


class Measure(StrEnum):
    """What a number is. Times are seconds; `BYTES` are of memory, `STORED` those in the log."""

    RATE = "rate"
    TIME = "time"
    P50 = "p50"
    P99 = "p99"
    BYTES = "bytes"
    STORED = "stored"

    @property
    def more_is_better(self) -> bool:
        """Whether the larger of two numbers is the better one."""
        return self is Measure.RATE


class Ref(NamedTuple):
    """Which figure of a scenario: the case, the contender and the measure."""

    case: str
    contender: str
    measure: Measure


class Spread(NamedTuple):
    """The median of the rounds, with the lowest and the highest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, rounds: Sequence[float]) -> Spread:
        """Summarise at least one round."""
        return cls(statistics.median(rounds), min(rounds), max(rounds))


class Goal(NamedTuple):
    """What a figure, or the ratio of two, should come to. One of the bounds is set.

    A ratio is formed within each round, so that whatever slowed a whole round cancels out.
    """

    what: str
    of: Ref
    against: Ref | None
    at_least: float | None
    at_most: float | None

    def is_met(self, spread: Spread) -> bool:
        """Whether the median is within the bound."""
        if self.at_least is not None:
            return spread.median >= self.at_least
        return spread.median <= (math.inf if self.at_most is None else self.at_most)


class Record:
    """The figures of one scenario, a value for each round."""

    def __init__(self, name: str, title: str, about: str, ours: str) -> None:
        self.name = name
        self.title = title
        self.about = about
        self.ours = ours
        self.figures: dict[Ref, list[float]] = {}
        self.goals: list[Goal] = []

    def add(self, ref: Ref, value: float) -> None:
        """Record the next round's value."""
        self.figures.setdefault(ref, []).append(value)

    def spread(self, ref: Ref) -> Spread | None:
        """The rounds of a figure; None where it was not measured."""
        rounds = self.figures.get(ref)
        return Spread.of(rounds) if rounds else None

    def ratio(self, of: Ref, against: Ref) -> Spread | None:
        """`of` over `against`, round by round; None where one of them was not measured."""
        above, below = self.figures.get(of), self.figures.get(against)
        if not above or not below:
            return None
        return Spread.of([a / b for a, b in zip(above, below, strict=True)])

    def outcome(self, goal: Goal) -> Spread | None:
        """What a goal's figure or ratio came to."""
        return self.ratio(goal.of, goal.against) if goal.against else self.spread(goal.of)

    def times_as_good(self, theirs: Ref) -> Spread | None:
        """How many times as good the scenario's own contender is: above 1, it is ahead."""
        own = theirs._replace(contender=self.ours)
        if theirs.measure.more_is_better:
            return self.ratio(own, theirs)
        return self.ratio(theirs, own)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest of `values` that at least `percent` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]
