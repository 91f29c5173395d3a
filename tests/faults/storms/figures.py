"""What a storm has to tell: what was done, what it took, and what was broken."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from tests.faults.checker import Violation, judge
from tests.faults.history import History, Save


class Figures(msgspec.Struct):
    """Counts, and seconds that things took. `broken` is empty after a storm that all survived."""

    storm: str
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    seconds: dict[str, list[float]] = {}
    broken: list[Violation] = []

    def judge(self, history: History, what: str) -> None:
        """Take a run in. One that breaks a promise is kept in a file, for whoever mends that."""
        for op in history.ops:
            if isinstance(op, Save):
                self.counts[f"saves {op.outcome}"] += 1
            else:
                self.counts[type(op).__name__.lower() + "s"] += 1
        broken = judge(history)
        if broken:
            name = f"foldlog-{self.storm.replace(' ', '-')}-{what}-{os.getpid()}.json"
            kept = Path(tempfile.gettempdir(), name)
            kept.write_bytes(msgspec.json.encode(history))
            self.broken += [*broken, Violation("kept", str(kept))]
        self.tell()

    def tell(self) -> None:
        """Say what has been found so far: a storm that is stopped early has told so much."""
        sys.stderr.write(f"{self}\n")

    def took(self, what: str, seconds: float) -> None:
        """Note how long something took."""
        self.seconds.setdefault(what, []).append(seconds)

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {what}" for what, count in sorted(self.counts.items()))
        seconds = "".join(
            f"\n  {what}: median {statistics.median(took):.2f} s, longest {max(took):.2f} s"
            for what, took in self.seconds.items()
        )
        broken = "\n".join(f"  BROKEN {kind}: {detail:.500}" for kind, detail in self.broken)
        return f"{self.storm}: {counts}{seconds}\n{broken or '  nothing broken'}"
