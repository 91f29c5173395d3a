"""One scan folds every subject, in bounded memory, and a log that lost records is accepted."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from foldlog.log.memory import MemoryLog
from foldlog.views.refolding import Refolded, Refolding
from foldlog_projections.updates import kind as updates
from tests.rebuilding.test_rebuild import LONG, save_updates, wait_for_snapshots
from tests.support.build import update

SESSIONS, EACH = 20, 10


@pytest.mark.parametrize(("max_bytes", "scans"), [(10**9, 1), (40_000, 2)])
async def test_subjects_that_do_not_fit_are_left_to_another_scan(
    max_bytes: int, scans: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldlog.log.memory._PAGE", 50)
    log, scanned = MemoryLog(), 0
    async with foldlog.memory_store(log=log) as store:
        for n in range(EACH):
            for session in range(SESSIONS):
                await store.save_update(update(f"{n}", f"s{session}"))
    scan = log.scan

    def counted(shard: int, *, after: int = 0) -> Any:
        nonlocal scanned
        scanned += 1
        return scan(shard, after=after)

    monkeypatch.setattr(log, "scan", counted)

    def refuse(error: foldlog.LogCorrupt) -> None:
        raise error

    refolding = Refolding(
        log,
        lambda subject: [updates] if subject.family == "updates" else [],
        lambda subject: False,
        refuse,
        max_bytes,
    )
    counts = await log.subjects("updates")
    found: list[Refolded] = [
        each async for page in refolding.shard(0, counts) for each in page if each.folds
    ]
    assert sorted(each.subject for each in found) == sorted(counts)
    for each in found:
        (fold,) = each.folds
        assert list(fold.folded.seen) == [f"{n}" for n in range(EACH)]
        assert (each.records, each.envelopes) == (EACH, EACH)
    assert (scanned > 1) == (scans > 1)


async def test_a_log_that_lost_records_is_accepted_though_views_of_it_are_hot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = MemoryLog()
    async with foldlog.memory_store(log=log) as store:
        await save_updates(store, LONG)
        await store.list_updates("s")
        await wait_for_snapshots(store)
        del log._stored[store._core.subject(updates, "s")][-3:]
        loss = foldlog.LogCorrupt(log.namespace.stream(0), LONG, "3 records are missing")
        losses = [loss]

        async def check() -> list[Any]:
            return list(losses)

        async def accept() -> None:
            losses.clear()

        read = log.read

        def guarded(subject: Any, **how: Any) -> Any:
            if losses:
                raise loss
            return read(subject, **how)

        monkeypatch.setattr(log, "check", check)
        monkeypatch.setattr(log, "accept", accept)
        monkeypatch.setattr(log, "read", guarded)
        assert [each.reason for each in (await store.verify()).findings] == [loss.reason]
        await store.rebuild()
        await store._core.hot_views.drop_snapshots()  # a new incarnation has none of the old
        assert len(await store.list_updates("s", limit=LONG)) == LONG - 3
