"""Which way is cheaper for a group of records: publishes side by side, or one atomic batch.

A publish costs its own fsync; a batch costs few fsyncs, and a staging directory that the server
makes and removes. Which wins depends on the disk: on one with a fast fsync up to a hundred records
are cheaper side by side, on a slow one three. So both are measured as they are used (ADR 0004).
"""

from __future__ import annotations

from typing import Final

_WEIGHT: Final = 0.2
"""How much the latest measurement counts against those before it."""

_FORGET: Final = 0.99
"""What is left of a batch's estimate each time it loses: so that it is tried again in time."""


class BatchChooser:
    """Chooses by estimates, in seconds, learnt from one stream's appends."""

    def __init__(self, single: float = 0.000_1, batch: float = 0.008) -> None:
        self._single = single
        self._batch = batch

    def prefers_batch(self, records: int) -> bool:
        """Whether `records` should go as one batch."""
        if records > 1 and records * self._single > self._batch:
            return True
        self._batch *= _FORGET
        return False

    def learn(self, records: int, seconds: float, *, as_batch: bool) -> None:
        """Take in what a group has cost."""
        if as_batch:
            self._batch += _WEIGHT * (seconds - self._batch)
        else:
            self._single += _WEIGHT * (seconds / records - self._single)
