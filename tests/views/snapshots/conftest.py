"""Snapshots of short folds, in several pieces, of a log that is read in short pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest

from foldlog.log import memory as memory_module
from foldlog.log.side import MemorySide
from foldlog.subjects import Subject
from foldlog.views import Views, snapshots as snapshots_module
from foldlog_projections.items import PAGE
from foldlog_projections.updates import kind as updates
from tests.support.beside import MemorySnapshots
from tests.views.support import Log, read, save, subject

LONG = 3 * PAGE + 10


class CountingLog(Log):
    """A log that counts the envelopes it is read for."""

    def __init__(self) -> None:
        super().__init__()
        self.read_envelopes = 0

    async def read(self, subject: Subject, *, after: int = 0, strong: bool = True) -> Any:
        async with aclosing(super().read(subject, after=after, strong=strong)) as pages:
            async for records in pages:
                self.read_envelopes += sum(len(record.envelopes) for record in records)
                yield records


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Snapshots of short folds, in several pieces, of a log that is read in short pages."""
    with small_sizes(monkeypatch):
        yield


def small_sizes(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(snapshots_module, "DUE_ENVELOPES", PAGE)
    monkeypatch.setattr(MemorySide, "max_bytes", 8 * PAGE)
    monkeypatch.setattr(memory_module, "_PAGE", PAGE)
    return monkeypatch.context()


@pytest.fixture
def log() -> CountingLog:
    return CountingLog()


@pytest.fixture
def store() -> MemorySnapshots:
    return MemorySnapshots()


async def save_long(log: Log, count: int = LONG, first: int = 0) -> list[str]:
    ids = [f"{n:04}" for n in range(first, first + count)]
    for id in ids:
        await save(log, id, task=f"t{int(id) % 3}")
    return ids


async def snapshot_of(log: Log, store: MemorySnapshots) -> None:
    """Have a process read the view and end: what it wrote stays."""
    views = Views(log, store)
    await read(views)
    await views.close()


async def latest(views: Views, limit: int) -> list[str]:
    found = await views.select(
        updates, subject(), "session", lambda folded: folded.state.latest(limit)
    )
    return [item.id for item in found]
