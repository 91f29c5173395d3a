"""What a scenario is given: contenders, rounds that take turns, and where to record."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.contenders.contender import Contender
from benchmarks.measuring import Goal, Measure, Record, Ref
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable

C = TypeVar("C", bound=Contender)
V = TypeVar("V")


@dataclass
class Bench:
    """One run.

    `promises` and `facts` are those of the contenders that took part; `missing` says why others
    could not.
    """

    site: Site
    rounds: int = 5
    quick: bool = False
    records: list[Record] = field(default_factory=list)
    promises: dict[str, str] = field(default_factory=dict)
    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)

    def begin(self, name: str, title: str, about: str, *, ours: str = "foldlog") -> None:
        """Start the next scenario: what is recorded from now on belongs to it.

        `ours` is the contender with which the others are compared.
        """
        self.records.append(Record(name, title, about, ours))
        self.say(title)

    def say(self, text: str) -> None:
        """Tell whoever waits how far the run is."""
        print(f"[{time.monotonic() - self._began:6.1f} s] {text}", flush=True)

    def size(self, full: V, quick: V) -> V:
        """Choose how much to do."""
        return quick if self.quick else full

    @asynccontextmanager
    async def opened(self, kinds: Sequence[type[C]]) -> AsyncIterator[list[C]]:
        """Open one contender of each kind, on fresh data. Those that are missing are noted."""
        async with AsyncExitStack() as stack:
            opened = []
            for kind in kinds:
                contender = kind(self.site)
                try:
                    await contender.open()
                except Unavailable as reason:
                    if kind.name not in self.missing:
                        self.say(f"  without {kind.name}: {reason}")
                    self.missing[kind.name] = str(reason)
                    continue
                stack.push_async_callback(contender.close)
                self.promises[kind.name] = kind.promise
                self.facts[kind.name] = await contender.facts()
                opened.append(contender)
            yield opened

    def turns(self, contenders: Sequence[V]) -> Iterator[V]:
        """Yield every contender once a round; each round begins with another one."""
        for number in range(self.rounds):
            first = number % len(contenders) if contenders else 0
            yield from contenders[first:]
            yield from contenders[:first]

    def record(self, case: str, contender: str, measure: Measure, value: float) -> None:
        """Record one round's value."""
        self.records[-1].add(Ref(case, contender, measure), value)

    def expect(
        self,
        what: str,
        of: Ref,
        against: Ref | None = None,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """State what a figure, or its ratio to another, should come to. Nothing fails by it."""
        self.records[-1].goals.append(Goal(what, of, against, at_least, at_most))
