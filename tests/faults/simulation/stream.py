"""A stream on three replicas, as far as clients can tell: what was committed, and who knows it yet.

What is stored here stays. Replica 0 leads and knows everything; the others follow some time later,
each in order. Nothing is stored while an election lasts.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from tests.faults.simulation.clock import EPOCH

REPLICAS = 3


class Stored(NamedTuple):
    """A message as the stream has it; `previous` is the sequence before it in its subject."""

    seq: int
    subject: str
    time: str
    data: bytes
    previous: int


class Stream:
    """See the module. `unreadable`: sequences whose bytes are damaged."""

    def __init__(self, rng: random.Random, *, lag: float) -> None:
        self.last = 0
        self.unreadable: set[int] = set()
        self.listeners: list[Callable[[Stored], None]] = []
        self.elected = asyncio.Event()
        self.elected.set()
        self._rng = rng
        self._lag = lag
        self._subjects: dict[str, list[Stored]] = defaultdict(list)
        self._applied = [0] * REPLICAS
        self._ready = [0.0] * REPLICAS

    def store(self, subject: str, data: bytes) -> Stored:
        """Commit a message."""
        loop = asyncio.get_running_loop()
        self.last += 1
        clock = dt.datetime.fromtimestamp(EPOCH + loop.time(), dt.UTC).isoformat()
        stored = Stored(self.last, subject, clock, data, self.head(subject))
        self._subjects[subject].append(stored)
        self._applied[0] = stored.seq
        for replica in range(1, REPLICAS):
            due = loop.time() + self._rng.random() * self._lag
            self._ready[replica] = max(self._ready[replica], due)
            loop.call_at(self._ready[replica], self._apply, replica, stored.seq)
        for listener in list(self.listeners):
            listener(stored)
        return stored

    def head(self, subject: str) -> int:
        """The sequence at which a subject ends; 0 for none."""
        stored = self._subjects.get(subject)
        return stored[-1].seq if stored else 0

    def read(self, subject: str, after: int = 0, replica: int = 0) -> list[Stored]:
        """What a replica has of a subject after a sequence."""
        stored = self._subjects.get(subject, [])
        first = bisect_right(stored, after, key=lambda each: each.seq)
        known = bisect_right(stored, self._applied[replica], key=lambda each: each.seq)
        return stored[first:known]

    def subjects(self) -> list[str]:
        """Every subject that holds something."""
        return list(self._subjects)

    def purge(self, subject: str, before: int) -> None:
        """Remove what is older."""
        kept = [stored for stored in self._subjects[subject] if stored.seq >= before]
        if kept:
            self._subjects[subject] = kept
        else:
            del self._subjects[subject]

    def elect(self, seconds: float) -> None:
        """Have no leader for so long."""
        self.elected.clear()
        asyncio.get_running_loop().call_later(seconds, self.elected.set)

    def _apply(self, replica: int, seq: int) -> None:
        self._applied[replica] = max(self._applied[replica], seq)
