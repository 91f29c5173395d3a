"""A log that was restored from a backup or replaced under a store that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from foldlog.envelope import CLEARED, draft
from foldlog.errors import LogRewound
from foldlog.log import memory as memory_module
from foldlog.log.port import Append, Record
from foldlog.subjects import Subject
from foldlog.views import Views, watching
from foldlog_projections.fold import Cleared
from foldlog_projections.folds import all_records
from foldlog_projections.langgraph import langgraphitems
from foldlog_projections.memory import kind as memory
from foldlog_projections.scoped import scoped
from foldlog_projections.updates import kind as updates
from tests.support.tombstones import tombstone
from tests.views.support import Log, dropped, read, save, subject


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
async def views(log: Log) -> AsyncIterator[Views]:
    views = Views(log)
    yield views
    await views.close()


@pytest.mark.parametrize("kept", [0, 2])
@pytest.mark.parametrize("since", [0, 1, 5])
async def test_no_read_answers_until_the_log_is_accepted(
    log: Log, views: Views, kept: int, since: int
) -> None:
    for n in range(4):
        await save(log, f"old{n}")
    await read(views)
    log.restore(subject(), kept)
    log.missed += 1
    log.push = dropped
    new = [f"new{n}" for n in range(since)]
    for id in new:
        await save(log, id)
    for _ in range(2):
        with pytest.raises(LogRewound) as rewound:
            await read(views)
        assert (rewound.value.stream, rewound.value.sequence) == (subject().name, 4)
        assert rewound.value.reason == "'old3' was read there"
    await views.drop()
    assert await read(views) == [f"old{n}" for n in range(kept)] + new


async def test_it_is_noticed_by_the_latest_view(log: Log, views: Views) -> None:
    where = log.namespace.subject("memory", "k")
    for id in ("1", "2", "3"):
        await log.append([Append(where, (draft("m", b"\xc0", id=id),))])
    await views.read(memory, where, "session")
    log.restore(where, 2)
    log.missed += 1
    with pytest.raises(LogRewound, match="no longer holds sequence 3"):
        await views.read(memory, where, "session")
    await views.drop()
    folded = await views.read(memory, where, "session")
    assert folded.state is not None
    assert folded.state.id == "2"


@pytest.mark.parametrize("is_cleared", [False, True])
@pytest.mark.parametrize("kind", [scoped.kind, langgraphitems.kind])
async def test_a_view_may_only_go_with_all_that_begin_with_its_first_key(
    log: Log, views: Views, is_cleared: bool, kind: Any
) -> None:
    plain = kind if kind.latest_only else all_records(kind)
    where = log.namespace.subject(kind.family, "s", "k")
    own = log.namespace.subject(kind.family, "s", scoped.OWN)
    tombstone = Append(own, (draft(CLEARED, msgspec.msgpack.encode(Cleared(b"")), id="c"),))
    await log.append([tombstone])
    await log.append([Append(where, (draft("m", b"\xc0", id="1"),))])
    assert (await views.read(plain, where, "session")).state
    if is_cleared:
        [at] = await log.append([tombstone])
        await log.purge(log.namespace.branch(kind.family, "s"), before=at)
    else:
        log.restore(where, 0)
    log.missed += 1
    if is_cleared:
        assert not (await views.read(plain, where, "session")).state
    else:
        with pytest.raises(LogRewound, match="no longer holds sequence 2"):
            await views.read(plain, where, "session")


async def test_a_watcher_ends_with_it(log: Log, views: Views) -> None:
    await save(log, "0")
    async with aclosing(watching.watch(views, updates, subject(), None)) as watcher:
        assert (await anext(watcher)).id == "0"
        log.restore(subject(), 0)
        log.missed += 1
        views.wake()
        with pytest.raises(LogRewound):
            await anext(watcher)


async def test_an_eventual_read_does_not_hide_it(log: Log, views: Views) -> None:
    for n in range(4):
        await save(log, f"old{n}")
    await read(views)
    log.restore(subject(), 2)
    log.missed += 1
    await save(log, "new")
    await read(views, "eventual")
    with pytest.raises(LogRewound):
        await read(views, "strong")


async def test_what_was_read_before_spares_no_append(log: Log, views: Views) -> None:
    for n in range(4):
        await save(log, f"{n}")
    await read(views)
    log.restore(subject(), 0)
    log.missed += 1
    views.acked(subject(), await save(log, "3"))
    with pytest.raises(LogRewound):
        await read(views)
    assert views.current(subject()) is None
    await views.drop()
    assert await read(views) == ["3"]


async def test_a_clearing_is_not_taken_for_a_restored_log(log: Log, views: Views) -> None:
    await save(log, "1")
    await save(log, "2")
    await read(views)
    log.push = dropped
    cleared = tombstone()
    (seq,) = await log.append([Append(subject(), (cleared,))])
    await log.purge(subject(), before=seq)
    await save(log, "1", "3")
    log.missed += 1
    assert await read(views) == ["1", "3"]


async def test_a_clearing_behind_a_late_writer_is_not_taken_for_it(log: Log, views: Views) -> None:
    await save(log, "1")
    before = await save(log, "2") + 1
    await read(views)
    log.push = dropped
    await save(log, "late")
    await log.append([Append(subject(), (tombstone(),))])
    await log.purge(subject(), before=before)
    await save(log, "3")
    log.missed += 1
    assert await read(views) == ["3"]


async def test_a_push_during_a_strong_read_is_no_restored_log(
    log: Log, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = log.namespace.subject("memory", "k")

    async def append(id: str) -> None:
        await log.append([Append(where, (draft("m", b"\xc0", id=id),))])

    await append("1")
    await views.read(memory, where, "session")
    last = log.last

    async def overtaken(subject: Subject, *, strong: bool = True) -> Record | None:
        found = await last(subject, strong=strong)
        await append("2")  # stored and pushed while the answer is on its way
        return found

    monkeypatch.setattr(log, "last", overtaken)
    folded = await views.read(memory, where, "strong")
    assert folded.state is not None
    assert folded.state.id == "2"


async def test_what_a_reader_under_way_has_read_is_not_mixed_with_what_follows(
    log: Log, views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_module, "_PAGE", 10)
    await save(log, "0")
    await read(views)
    log.push = dropped
    for n in range(1, 40):
        views.acked(subject(), await save(log, f"old{n}"))
    reached, go = asyncio.Event(), asyncio.Event()
    unhindered = log.read

    async def slow(subject: Subject, *, after: int = 0, strong: bool = True) -> Any:
        pages = [page async for page in unhindered(subject, after=after, strong=strong)]
        monkeypatch.setattr(log, "read", unhindered)
        for page in pages:
            yield page
            reached.set()
            await go.wait()

    monkeypatch.setattr(log, "read", slow)
    first = asyncio.create_task(read(views))
    await reached.wait()
    log.restore(subject(), 0)
    log.missed += 1
    new = [f"new{n}" for n in range(3)]
    for id in new:
        await save(log, id)
    second = asyncio.create_task(read(views, "strong"))
    go.set()
    await asyncio.wait([first, second])
    assert isinstance(second.exception(), LogRewound)
    first.exception()
    await views.drop()
    assert await read(views) == new
