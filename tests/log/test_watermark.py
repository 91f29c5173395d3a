"""What a log is known to have held, against a log that lost some of it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from foldlog.errors import FoldlogError, LogCorrupt, LogRewound, LogUnavailable
from foldlog.log import watermark
from foldlog.log.extent import Extent
from foldlog.log.marks import Mark, loss
from foldlog.log.memory import MemoryLog
from foldlog.log.port import StreamInfo
from foldlog.log.watermark import Watermarked
from foldlog.subjects import Namespace
from tests.log.marks import Lossy, MemoryMarks, marked, read, save, where


def stream(last_seq: int, messages: int, replicas: int = 1) -> StreamInfo:
    return StreamInfo("S", 0, messages, 0, 1, 1, last_seq, replicas, None, {})


@pytest.mark.parametrize(
    ("mark", "found", "error"),
    [
        (Mark(), stream(0, 0), None),
        (Mark(9, 9), stream(9, 9), None),
        (Mark(9, 9), stream(12, 12), None),
        (Mark(9, 5), stream(12, 8), None),
        (Mark(9, 9), stream(8, 8), LogRewound),
        (Mark(9, 9, {"a": 0.0}), stream(8, 8), LogRewound),
        (Mark(9, 9), stream(12, 11), LogCorrupt),
        (Mark(9, 9), stream(9, 0), LogCorrupt),
        (Mark(9, 9, {"a": 0.0}), stream(9, 0), None),
        (Mark(9, 9), stream(9, 8, replicas=3), None),
        (Mark(9, 9, ended=7), stream(12, 12), LogRewound),
    ],
)
def test_a_loss_is_what_nothing_else_explains(
    mark: Mark, found: StreamInfo, error: type[FoldlogError] | None
) -> None:
    assert type(loss(mark, found)) is (type(None) if error is None else error)


async def test_a_gap_is_told_by_every_read_until_it_is_accepted(
    below: Lossy, marks: MemoryMarks
) -> None:
    await marked(below, marks)
    below.lose(where(below), 2)
    log = Watermarked(below, marks)
    for _ in range(2):
        with pytest.raises(LogCorrupt, match="1 records up to here are missing"):
            await read(log)
        with pytest.raises(LogCorrupt):
            await log.last(where(below, "other"))
    await save(log, 3, "more")
    await log.close()  # which does not hide it
    log = Watermarked(below, marks)
    with pytest.raises(LogCorrupt):
        await read(log)
    await log.accept()
    assert await read(log) == 4
    assert await read(Watermarked(below, marks)) == 4


async def test_a_log_that_ends_earlier_is_rewound(below: Lossy, marks: MemoryMarks) -> None:
    await marked(below, marks)
    below.cut(where(below), 3)
    with pytest.raises(LogRewound) as rewound:
        await read(Watermarked(below, marks))
    assert rewound.value.sequence == 5


async def test_a_loss_while_the_store_is_open_is_noticed(below: Lossy, marks: MemoryMarks) -> None:
    await marked(below, marks)
    log = Watermarked(below, marks)
    assert await read(log) == 5
    below.lose(where(below), 0)
    with pytest.raises(LogCorrupt):
        await read(log)


async def test_a_loss_is_not_forgotten_because_its_mark_is_not_shown_again(
    below: Lossy, marks: MemoryMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    await marked(below, marks)
    below.lose(where(below), 2)
    show, shown = marks.mark, 0

    async def once(shard: int) -> tuple[bytes | None, int]:
        nonlocal shown
        shown += 1
        return await show(shard) if shown == 1 else (None, 0)

    monkeypatch.setattr(marks, "mark", once)
    log = Watermarked(below, marks)
    with pytest.raises(LogUnavailable, match="not to be seen"):
        await read(log)
    monkeypatch.setattr(marks, "mark", show)
    with pytest.raises(LogCorrupt):
        await read(log)


async def test_one_mark_is_written_at_a_time(
    below: Lossy, marks: MemoryMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watermark, "MARK_SECONDS", 0)
    put, going, most = marks.put_mark, 0, 0
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(shard: int, data: bytes, revision: int) -> bool:
        nonlocal going, most
        going += 1
        most = max(most, going)
        begun.set()
        try:
            await go_on.wait()
        finally:
            going -= 1
        return await put(shard, data, revision)

    monkeypatch.setattr(marks, "put_mark", slow)
    log = Watermarked(below, marks)
    await save(log, 3)
    await begun.wait()
    await save(log, 2, "t")
    for _ in range(20):  # turns of the loop, in which a second one would begin
        await asyncio.sleep(0)
    go_on.set()
    await log.close()
    assert most == 1
    assert marks.of() == Mark(5, 5)


async def test_a_mark_that_cannot_be_written_fails_nothing(
    below: Lossy, marks: MemoryMarks
) -> None:
    await marked(below, marks)
    marks.away = True
    log = Watermarked(below, marks)
    await save(log, 2)
    await log.close()
    assert marks.of() == Mark(5, 5)


async def test_what_is_appended_to_a_rewound_log_does_not_hide_it(
    below: Lossy, marks: MemoryMarks
) -> None:
    await marked(below, marks)
    below.cut(where(below), 3)
    log = Watermarked(below, marks)
    await log.look()
    await save(log, 9, "more")
    await log.close()
    log = Watermarked(below, marks)
    await log.purge(where(below, "more"), before=7)
    with pytest.raises(LogRewound) as rewound:
        await read(log)
    assert rewound.value.sequence == 5
    await log.accept()
    assert await read(Watermarked(below, marks)) == 3


async def test_a_mark_that_is_none_proves_nothing(below: Lossy, marks: MemoryMarks) -> None:
    await marked(below, marks)
    marks.stored[0] = b"\xff", 7
    log = Watermarked(below, marks)
    assert await read(log) == 5
    await save(log, 1, "other")
    await log.close()
    assert marks.of() == Mark(6, 6)


# --- what a store knows by itself ---------------------------------------------------------------


async def test_a_backup_that_brought_its_marks_along_is_rewound(
    below: Lossy, marks: MemoryMarks
) -> None:
    await marked(below, marks, 3)
    extents = [Extent()]
    log = Watermarked(below, marks, extents=extents)
    await save(log, 2, "more")
    extents[0].reaches(5)  # as the log below does when it hears of the acks
    below.cut(where(below), 3)
    for _ in range(2):
        with pytest.raises(LogRewound) as rewound:
            await log.prove_for_appends()
        assert rewound.value.sequence == 5
    with pytest.raises(LogRewound):
        await read(log)
    with pytest.raises(LogRewound) as rewound:  # whoever else comes, and knows nothing
        await read(Watermarked(below, marks))
    assert rewound.value.sequence == 5
    await log.accept()
    await log.prove_for_appends()
    assert extents[0].seq == 3
    assert await read(log) == 3
    assert await read(Watermarked(below, marks)) == 3


async def test_what_was_seen_when_it_was_looked_at_is_known(
    below: Lossy, marks: MemoryMarks
) -> None:
    await save(Watermarked(below, marks), 5)  # which leaves no mark
    log = Watermarked(below, marks)
    await log.look()
    below.cut(where(below), 3)
    with pytest.raises(LogRewound) as rewound:
        await log.prove_for_appends()
    assert rewound.value.sequence == 5


async def test_what_was_lost_before_it_was_opened_stops_no_append(
    below: Lossy, marks: MemoryMarks
) -> None:
    await marked(below, marks)
    below.cut(where(below), 3)
    extents = [Extent()]
    log = Watermarked(below, marks, extents=extents)
    await log.look()
    await log.prove_for_appends()
    await save(log, 2, "more")
    extents[0].reaches(5)
    below.missed += 1
    await log.prove_for_appends()
    below.cut(where(below), 2)  # now it has lost more
    with pytest.raises(LogRewound):
        await log.prove_for_appends()


async def test_a_gap_stops_no_append(below: Lossy, marks: MemoryMarks) -> None:
    await marked(below, marks)
    log = Watermarked(below, marks)
    await log.look()
    below.lose(where(below), 2)
    await log.prove_for_appends()
    with pytest.raises(LogCorrupt):
        await read(log)


class Deposed(Lossy):
    """Has three replicas, of which the one that answers does not know all; until it is asked to
    prove that it leads.
    """

    behind = 0
    barriers = 0

    async def streams(self) -> list[StreamInfo]:
        return [
            info._replace(last_seq=info.last_seq - self.behind, replicas=3, leader="it")
            for info in await super().streams()
        ]

    async def barrier(self, shard: int) -> None:
        self.barriers += 1
        self.behind = 0


async def test_a_deposed_leader_is_not_taken_for_a_log_that_was_rewound(marks: MemoryMarks) -> None:
    below = Deposed()
    log = Watermarked(below, marks)
    await save(log, 5)
    await log.look()
    below.missed, below.behind = 1, 2
    await log.prove_for_appends()
    assert below.barriers == 1
    below.cut(where(below), 3)
    with pytest.raises(LogRewound):
        await log.prove_for_appends()
    assert below.barriers == 2


# --- several shards -----------------------------------------------------------------------------


def on_each_shard(log: MemoryLog) -> list[str]:
    """A key of each shard."""
    keys = {where(log, f"{n}").shard: f"{n}" for n in range(64)}
    return [keys[shard] for shard in range(log.namespace.shards)]


@pytest.fixture
async def sharded() -> Lossy:
    """Two shards with five records each."""
    below = Lossy(Namespace(shards=2))
    for key in on_each_shard(below):
        await save(Watermarked(below, MemoryMarks()), 5, key)
    return below


@pytest.mark.parametrize("gap", [True, False], ids=["a gap", "a loss of before"])
async def test_what_one_shard_has_lost_does_not_hide_that_another_was_rewound(
    sharded: Lossy, marks: MemoryMarks, gap: bool
) -> None:
    first, second = on_each_shard(sharded)
    marks.stored[0] = msgspec.json.encode(Mark(5 if gap else 9, 5)), 1
    log = Watermarked(sharded, marks)
    await log.look()
    if gap:
        sharded.lose(where(sharded, first), 2)
    await log.prove_for_appends()
    sharded.cut(where(sharded, second), 3)
    for _ in range(2):
        with pytest.raises(LogRewound) as rewound:
            await log.prove_for_appends()
        assert rewound.value.stream == sharded.namespace.stream(1)
    assert marks.of(1).ended == 3


async def test_what_several_shards_had_lost_before_stops_no_append(
    sharded: Lossy, marks: MemoryMarks
) -> None:
    for shard, key in enumerate(on_each_shard(sharded)):
        marks.stored[shard] = msgspec.json.encode(Mark(5, 5)), 1
        sharded.cut(where(sharded, key), 3)
    log = Watermarked(sharded, marks)
    await log.look()
    await log.prove_for_appends()
    with pytest.raises(LogRewound):
        await log.prove()


async def test_who_appends_does_not_wait_for_what_a_reader_is_not_told(
    below: Lossy, marks: MemoryMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, streams, asked = Watermarked(below, marks), below.streams, asyncio.Event()

    async def silence() -> list[StreamInfo]:
        monkeypatch.setattr(below, "streams", streams)  # the next one is answered
        asked.set()
        never: asyncio.Future[list[StreamInfo]] = asyncio.get_running_loop().create_future()
        return await never

    monkeypatch.setattr(below, "streams", silence)
    reading = asyncio.create_task(read(log))
    await asked.wait()
    async with asyncio.timeout(30):
        await log.prove_for_appends()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
