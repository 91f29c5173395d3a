"""Purges are the one thing that takes records away: they announce themselves in the mark."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from foldlog.errors import LogCorrupt, LogRewound, LogUnavailable
from foldlog.log.marks import Mark
from foldlog.log.port import StreamInfo
from foldlog.log.watermark import Watermarked
from foldlog.subjects import Subject
from tests.log.marks import Lossy, MemoryMarks, marked, read, save, where


async def test_a_purge_is_no_loss(below: Lossy, marks: MemoryMarks) -> None:
    await marked(below, marks)
    log = Watermarked(below, marks)
    await log.purge(where(below), before=4)
    assert await read(log) == 2
    assert marks.of() == Mark(5, 2)
    await log.truncate(0, before=5)
    assert await read(Watermarked(below, marks)) == 1
    below.lose(where(below), 0)
    with pytest.raises(LogCorrupt):
        await read(Watermarked(below, marks))


async def test_a_purge_whose_caller_died_is_no_loss(
    below: Lossy, marks: MemoryMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    await marked(below, marks)
    dying = Watermarked(below, marks)
    monkeypatch.setattr(dying, "_purged", lambda shard, token: asyncio.sleep(0))
    await dying.purge(where(below), before=4)
    assert await read(Watermarked(below, marks)) == 2
    log = Watermarked(below, marks)
    await save(log, 1)
    await log.close()
    assert marks.of().purging  # it may still be under way
    log = Watermarked(below, marks, clock=lambda: 1e12)
    await save(log, 1)
    await log.close()
    assert marks.of() == Mark(7, 4)


async def test_purges_side_by_side_are_no_loss(below: Lossy, marks: MemoryMarks) -> None:
    log = Watermarked(below, marks)
    for key in "abcdefgh":
        await save(log, 5, key)
    await log.close()
    logs = [Watermarked(below, marks) for _ in "abcdefgh"]

    async def work(log: Watermarked, key: str) -> None:
        await log.purge(where(below, key), before=10**6)
        await save(log, 2, key + key)
        await log.close()

    await asyncio.gather(*map(work, logs, "abcdefgh"))
    assert marks.of().messages + below._heads[0] - marks.of().seq == 16
    assert await read(Watermarked(below, marks), "aa") == 2


async def test_without_a_place_for_marks_a_purge_leaves_no_wrong_one(
    below: Lossy, marks: MemoryMarks
) -> None:
    await marked(below, marks)
    marks.refusing = True
    log = Watermarked(below, marks)
    await log.purge(where(below), before=4)
    assert marks.stored == {}
    assert await read(log) == 2


async def test_a_purge_that_cannot_be_announced_does_not_happen(
    below: Lossy, marks: MemoryMarks
) -> None:
    await marked(below, marks)
    marks.away = True
    with pytest.raises(LogUnavailable):
        await Watermarked(below, marks).purge(where(below), before=4)
    assert await read(Watermarked(below, marks)) == 5


class Unreadable(MemoryMarks):
    """Marks of which an account that may not read them is told that there are none."""

    async def mark(self, shard: int) -> tuple[bytes | None, int]:
        await asyncio.sleep(0)
        return None, 0


async def test_where_a_mark_cannot_be_read_a_purge_leaves_none(below: Lossy) -> None:
    marks = Unreadable()
    marks.stored[0] = msgspec.json.encode(Mark(5, 5)), 1
    log = Watermarked(below, marks)
    await save(log, 5)
    await log.purge(where(below), before=4)
    assert marks.stored == {}
    assert await read(log) == 2


async def test_what_another_marks_while_one_who_cannot_see_it_purges_goes_as_well(
    below: Lossy, marks: MemoryMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = Unreadable()
    blind.stored = marks.stored
    await marked(below, marks)
    other, purge = Watermarked(below, marks), below.purge

    async def slow(subject: Subject, *, before: int) -> None:
        await save(other, 1, "another")
        await other.close()  # which marks what it has saved
        assert marks.stored
        await purge(subject, before=before)

    monkeypatch.setattr(below, "purge", slow)
    await Watermarked(below, blind).purge(where(below), before=4)
    assert await read(Watermarked(below, marks)) == 2


async def test_a_purge_between_the_mark_and_the_log_is_no_loss(
    below: Lossy, marks: MemoryMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    await marked(below, marks)
    streams = below.streams

    async def streams_after_a_purge() -> list[StreamInfo]:
        monkeypatch.setattr(below, "streams", streams)
        await Watermarked(below, marks).purge(where(below), before=4)
        return await streams()

    monkeypatch.setattr(below, "streams", streams_after_a_purge)
    assert await read(Watermarked(below, marks)) == 2


async def test_a_purge_that_another_clock_took_for_dead_counts_anew(
    below: Lossy, marks: MemoryMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    await marked(below, marks)
    purge = below.purge

    async def purge_late(subject: Subject, *, before: int) -> None:
        ahead = Watermarked(below, marks, clock=lambda: 1e12)
        await save(ahead, 1, "other")
        await ahead.close()  # counts, as it takes the purge for over
        assert marks.of() == Mark(6, 6)
        await purge(subject, before=before)

    monkeypatch.setattr(below, "purge", purge_late)
    await Watermarked(below, marks).purge(where(below), before=4)
    assert marks.of() == Mark(6, 3)
    assert await read(Watermarked(below, marks)) == 2


async def test_a_rewound_log_is_accepted_while_a_purge_is_announced(
    below: Lossy, marks: MemoryMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    await marked(below, marks)
    dying = Watermarked(below, marks)
    monkeypatch.setattr(dying, "_purged", lambda shard, token: asyncio.sleep(0))
    await dying.purge(where(below), before=2)
    below.cut(where(below), 3)
    with pytest.raises(LogRewound):
        await read(Watermarked(below, marks))
    await Watermarked(below, marks).accept()
    assert marks.of().purging
    assert await read(Watermarked(below, marks)) == 3
