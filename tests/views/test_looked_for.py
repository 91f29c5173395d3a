"""Views that hold nothing and are looked for together: what that leaves behind, and who sees it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

import foldlog
from foldlog import LogUnavailable, StoreClosed, memory_store
from foldlog.log.port import OnRecord, Unfollow
from foldlog.store.decisions import At, Decided, decide_drafts
from foldlog.store.payloads import encode
from foldlog.subjects import Subject
from foldlog.views.view import EMPTY_BYTES
from tests.contract.test_decide import COUNTS, Made
from tests.views.support import Log, dropped

A, B, C = (COUNTS(name) for name in "abc")


class Held(Log):
    """A log whose answers that there is nothing arrive when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = asyncio.Event()
        self.go_on = asyncio.Event()

    async def are_absent(self, subjects: Sequence[Subject]) -> bool:
        if self.away:
            raise LogUnavailable("away")
        found = await super().are_absent(subjects)
        self.answered.set()
        await self.go_on.wait()
        return found


def opened(log: Log, **options: Any) -> foldlog.Store:
    return memory_store(log=log, kinds=[COUNTS], **options)


def nothing(*_: object) -> dict[foldlog.Key[Any], Decided]:
    return {}


async def test_a_strong_read_that_comes_meanwhile_looks_for_itself() -> None:
    log = Held()
    store, other = opened(log), opened(log)
    log.push = dropped
    deciding = asyncio.ensure_future(store.decide(A, lambda _: None))
    await log.answered.wait()
    await other.append(A, Made(0))
    reading = asyncio.ensure_future(store.view(A, consistency="strong"))
    await asyncio.sleep(0)
    log.go_on.set()
    assert await reading == [Made(0)]
    await deciding
    await store.close()
    await other.close()


async def test_a_later_view_is_not_older_than_one_before_it() -> None:
    log, seen = Held(), list[tuple[int, int]]()
    store, other = opened(log), opened(log)
    await store.append(A, Made(0))
    await store.view(A)
    await store.view(B)
    for key in (A, B):  # neither is current, and B holds nothing
        store._core.hot_views.unsettled(store._core.subject_of(key))
    log.push = dropped

    def decide(a: At, b: At) -> dict[foldlog.Key[Any], Decided]:
        seen.append((len(a.folded.state), len(b.folded.state)))
        return {A: Decided([encode(COUNTS, Made(9))])}

    deciding = asyncio.ensure_future(decide_drafts(store._core, [A, B], decide))
    await log.answered.wait()
    await other.append(B, Made(1))
    await other.append(A, Made(1))
    log.go_on.set()
    await deciding
    assert (2, 0) not in seen
    assert await store.view(A, consistency="strong") == [Made(0), Made(1), Made(9)]
    await store.close()
    await other.close()


async def test_pushes_of_before_a_restore_do_not_come_in_behind_it() -> None:
    log = Log()
    store, other, later = [opened(log) for _ in range(3)]
    assert await store.view(A) == []
    deliver, log.push = log.push, dropped
    await other.append(A, Made(1))
    log.push = deliver
    await other.append(A, Made(2))  # waits for the one before it, which was lost
    log.restore(store._core.subject_of(A), 0)
    log.missed += 1
    assert await store.decide(A, lambda found: [] if found else None) == ()
    await later.append(A, Made(3))
    assert await store.view(A, consistency="strong") == [Made(3)]
    for each in (store, other, later):
        await each.close()


async def test_what_holds_nothing_takes_no_more_memory_than_views_may() -> None:
    store = opened(Log(), max_hot_bytes=5 * EMPTY_BYTES)
    for n in range(50):
        await store.decide(COUNTS(str(n)), lambda _: None)
    assert len(store._core.hot_views) <= 6
    await store.close()


async def test_a_failed_look_leaves_no_view_behind() -> None:
    log = Held()
    store = opened(log)
    views = store._core.hot_views
    log.away = True
    with pytest.raises(LogUnavailable):
        await decide_drafts(store._core, [A, B, C], nothing)
    assert (len(views), log.followed) == (0, 0)
    async with views._alone(views.view(COUNTS, store._core.subject_of(B))):  # somebody reads it
        deciding = asyncio.ensure_future(decide_drafts(store._core, [A, B, C], nothing))
        await asyncio.sleep(0)
    with pytest.raises(LogUnavailable):
        await deciding
    assert (len(views), log.followed) == (0, 0)
    await store.close()
    with pytest.raises(StoreClosed):
        await decide_drafts(store._core, [A, B, C], nothing)
    assert len(views) == 0


async def test_a_look_that_is_cancelled_leaves_no_view_behind() -> None:
    log = Held()
    store = opened(log)
    deciding = asyncio.ensure_future(decide_drafts(store._core, [A, B, C], nothing))
    await log.answered.wait()
    assert log.followed == 3
    deciding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding
    assert (len(store._core.hot_views), log.followed) == (0, 0)
    await store.close()


async def test_a_view_that_was_dropped_meanwhile_is_not_followed() -> None:
    log = Held()
    store = opened(log)
    views, follow, subjects = store._core.hot_views, log.follow, list[Subject]()
    await store.view(B)
    views.unsettled(store._core.subject_of(B))

    async def drop_first(subject: Subject, on_record: OnRecord) -> Unfollow:
        subjects.append(subject)
        await views.drop()
        return await follow(subject, on_record)

    log.follow = drop_first  # type: ignore[method-assign]
    log.go_on.set()
    await decide_drafts(store._core, [A, B], nothing)
    log.follow = follow  # type: ignore[method-assign]
    assert store._core.subject_of(B) in subjects
    assert log.followed == len(views)
    await store.close()
    assert log.followed == 0
