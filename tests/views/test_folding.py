"""Folding all subjects from one scan: each is whole, whatever the memory, wherever it begins."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from foldlog.errors import LogCorrupt
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Stored
from foldlog.views.folding import Folding, Whole
from foldlog.views.refold import refold
from foldlog_projections import memory, updates
from foldlog_projections.fold import Folded
from foldlog_projections.items import PAGE
from foldlog_projections.registry import FAMILIES
from tests.views.support import save

FOLDS = {"updates": [updates], "memory": [memory]}


async def logged(order: list[int]) -> MemoryLog:
    log: Any = MemoryLog()
    for n, session in enumerate(order):
        await save(log, f"{n}", key=f"s{session}", size=100)
    return log


def folding_of(log: MemoryLog, counts: dict[str, int], **options: Any) -> Folding:
    return Folding(log.namespace, 0, counts, lambda family: FOLDS.get(family, []), **options)


async def folded(log: MemoryLog, folding: Folding, after: int = 0, page: int = 3) -> list[Whole]:
    """All passes of a folding, in pages of `page` records."""
    whole: list[Whole] = []
    start: int | None = after
    while start is not None:
        stored = [each async for found in log.scan(0, after=start) for each in found]
        for at in range(0, len(stored), page):
            whole += folding.take(stored[at : at + page])
        whole += folding.rest()
        start = folding.next_pass()
    return whole


@given(
    order=st.lists(st.integers(0, 6), max_size=60),
    max_bytes=st.sampled_from([0, 5_000, 20_000, 10**9]),
    page=st.integers(1, 9),
)
async def test_every_subject_is_folded_once_whatever_the_memory(
    order: list[int], max_bytes: int, page: int
) -> None:
    log = await logged(order)
    folding = folding_of(log, await log.counts(0), max_bytes=max_bytes)
    whole = await folded(log, folding, page=page)
    assert sorted(each.subject for each in whole) == sorted(log._stored)
    for each in whole:
        truth = (await refold(log, updates, each.subject)).folded
        [view] = each.views
        assert ids(view.folded) == ids(truth)
        assert view.folded.state.marks == truth.state.marks
        assert each.records == each.expected == len(log._stored[each.subject])
    assert folding.tally.envelopes == len(order)
    assert folding.bytes == 0


@given(
    order=st.lists(st.integers(0, 5), min_size=1, max_size=50),
    max_bytes=st.sampled_from([0, 12_000, 10**9]),
    stop=st.integers(0, 60),
)
async def test_from_the_floor_on_another_finishes_what_was_not_whole(
    order: list[int], max_bytes: int, stop: int
) -> None:
    """As after a kill: all that is known is what was whole, and the floor."""
    log = await logged(order)
    counts = await log.counts(0)
    first = folding_of(log, counts, max_bytes=max_bytes)
    stored = [each async for found in log.scan(0) for each in found]
    done = [whole.subject.name for each in stored[:stop] for whole in first.take([each])]
    left = {name: count for name, count in counts.items() if name not in done}
    second = folding_of(log, left, max_bytes=max_bytes)
    whole = await folded(log, second, after=first.floor - 1)
    assert sorted([*done, *(each.subject.name for each in whole)]) == sorted(counts)
    for each in whole:
        assert each.records == each.expected


async def test_memory_is_bounded_by_what_is_written_side_by_side() -> None:
    """Sessions one after the other never stand in memory together."""
    log = await logged([n // 20 for n in range(400)])
    folding = folding_of(log, await log.counts(0))
    most = 0
    async for page in log.scan(0):
        for stored in page:
            folding.take([stored])
            most = max(most, folding.bytes)
    one = folding_of(log, await log.counts(0))
    async for page in log.scan(0):
        one.take(page[:19])
    assert 0 < most <= 2 * one.bytes


async def test_sequences_let_go_of_their_pages_before_anything_is_deferred() -> None:
    log = await logged([0] * 1000)
    folding = folding_of(log, await log.counts(0), max_bytes=300_000)
    [whole] = await folded(log, folding, page=100)
    items = whole.views[0].folded.state
    assert (len(items), items.absent) == (1000, 1000 // PAGE - 1)
    kept = folding_of(log, await log.counts(0), max_bytes=300_000, keeps=lambda subject: True)
    [whole] = await folded(log, kept, page=100)
    assert whole.views[0].folded.state.absent == 0


async def test_what_cannot_be_read_is_raised_or_spared() -> None:
    log = await logged([0, 1, 0])
    broken = log.namespace.subject("updates", "s0")
    stored = log._stored[broken][1]
    seq, log._stored[broken][1] = stored.seq, msgspec.structs.replace(stored, data=b"\xff")
    with pytest.raises(LogCorrupt) as error:
        await folded(log, folding_of(log, await log.counts(0)))
    assert (error.value.stream, error.value.sequence) == (broken.name, seq)
    spared: list[LogCorrupt] = []
    whole = await folded(log, folding_of(log, await log.counts(0), spare=spared.append))
    assert [each.sequence for each in spared] == [seq]
    assert {each.subject.keys: (each.records, each.expected) for each in whole} == {
        ("s0",): (1, 2),
        ("s1",): (1, 1),
    }


def test_every_family_has_a_fold() -> None:
    assert set(FOLDS) <= set(FAMILIES)
    page = [Stored("foldlog.default.0.unknown.key", 1, "2026-01-01T00:00:00Z", b"")]
    assert folding_of(MemoryLog(), {}).take(page) == []


def ids(folded: Folded[Any]) -> list[str]:
    return list(folded.seen)
