"""Early snapshots: short views have them once they are quiet, and they are looked for first."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from foldlog.envelope import draft
from foldlog.log.port import Append
from foldlog.subjects import Subject
from foldlog.views import Views, refold, snapshots as snapshots_module
from foldlog_projections.items import PAGE
from foldlog_projections.langgraph.checkpoints import kind
from foldlog_projections.langgraph.thread import Thread
from tests.support.beside import MemorySnapshots
from tests.support.tombstones import tombstone
from tests.views.snapshots.conftest import CountingLog
from tests.views.snapshots.test_folds import PAYLOADS

STEPS = PAGE + 10


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch, small: None) -> None:
    """As always, a snapshot is due at once for far more than what is saved here."""
    monkeypatch.setattr(snapshots_module, "DUE_ENVELOPES", 100 * PAGE)


@pytest.fixture
def where(log: CountingLog) -> Subject:
    return log.namespace.subject(kind.name, "trip")


async def save(log: CountingLog, where: Subject, first: int, count: int) -> None:
    for n in range(first, first + count):
        body = msgspec.msgpack.encode(PAYLOADS[kind.name](n))
        await log.append([Append(where, (draft("checkpoint.put", body, id=f"id{n}"),))])


async def thread_of(views: Views, where: Subject) -> Thread:
    return (await views.read(kind, where, "session")).state


async def test_a_new_process_reads_nothing_that_a_snapshot_covers(
    log: CountingLog, store: MemorySnapshots, where: Subject
) -> None:
    views = Views(log, store)
    await save(log, where, 0, STEPS)
    await thread_of(views, where)
    await views.close()  # which waits for no quiet
    await save(log, where, STEPS, 3)
    views = Views(log, store)
    log.read_envelopes = 0
    found = await thread_of(views, where)
    assert log.read_envelopes == 1 + 3  # the first of them shows that the snapshot stands
    assert found == (await refold(log, kind, where)).state
    await views.close()


@pytest.mark.parametrize("is_quiet", [False, True])
async def test_it_is_written_when_nobody_writes(
    log: CountingLog,
    store: MemorySnapshots,
    where: Subject,
    monkeypatch: pytest.MonkeyPatch,
    is_quiet: bool,
) -> None:
    monkeypatch.setattr(snapshots_module, "QUIET_SECONDS", 1e-9 if is_quiet else 60.0)
    asked, unhindered = asyncio.Event(), store.identity

    async def noted(subject: Subject) -> str:
        asked.set()
        return await unhindered(subject)

    views = Views(log, store)
    await thread_of(views, where)
    store.identity = noted  # type: ignore[method-assign]
    await save(log, where, 0, STEPS)
    if is_quiet:
        await asked.wait()
    else:
        for _ in range(10):
            await asyncio.sleep(0)
        assert not asked.is_set()
    await views.close()
    assert store.stored


async def test_a_snapshot_from_before_a_clearing_shows_nothing(
    log: CountingLog, store: MemorySnapshots, where: Subject
) -> None:
    views = Views(log, store)
    await save(log, where, 0, STEPS)
    folded, head = await views.read_at(kind, where)
    await views.close()
    left = folded.state.remains()
    await log.append([Append(where, (tombstone(left),), head)], atomic=True)
    await log.purge(where, before=head + 1)
    views = Views(log, store)
    assert not await thread_of(views, where)
    await views.close()
    assert not store.stored  # it was met, and removed
