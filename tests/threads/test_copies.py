"""A copy of a thread is appended in parts, and shows all at once, or not at all."""

from __future__ import annotations

import os
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog.integrations.langgraph import CheckpointGone, ThreadHeld, threads as threads_module
from foldlog_projections.langgraph.checkpointrecords import Held
from foldlog_projections.langgraph.checkpoints import kind
from foldlog_projections.langgraph.thread import Thread
from tests.threads.support import FORMS, ROOT, Place, checkpoint, threads

COPY = {"configurable": {"thread_id": "copy"}}


class Watched:
    """A store that a test may look at before each of its appends."""

    def __init__(self, store: foldlog.Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.appends = list[int]()
        append = store.append

        async def watched(key: Any, *records: msgspec.Struct) -> None:
            await self.before(len(self.appends))
            self.appends.append(sum(len(msgspec.msgpack.encode(each)) for each in records))
            await append(key, *records)

        monkeypatch.setattr(store, "append", watched)

    async def before(self, number: int) -> None:
        """What the test does before that append."""


async def fill(store: foldlog.Store, steps: int = 20) -> None:
    one, place = threads(store), ROOT
    for number in range(steps):
        place = await one.put(place, checkpoint(f"{number:04}", text="x" * 50), {}, {"text": 1})
        await one.put_writes(place, [(0, "text", "z")], "task", "")


async def ids(store: foldlog.Store) -> list[str]:
    rows = await threads(store).rows(COPY, None, None, None)
    return [row.checkpoint.id for _, row in rows]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "_PART_BYTES", 200)


async def test_no_append_of_a_copy_is_large_and_nothing_shows_before_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with foldlog.memory_store() as store:
        await fill(store)
        watched = Watched(store, monkeypatch)

        async def look(number: int) -> None:
            assert await ids(store) == []
            copied: Thread = await store.view(kind("copy"))  # as a snapshot has it
            assert sum(map(len, copied.copying.values())) == number

        watched.before = look  # type: ignore[method-assign]
        await threads(store).copy("trip", "copy")
        assert len(watched.appends) > 5
        assert max(watched.appends[:-1]) < 300
        assert len(await ids(store)) == 20
        copy: Thread = await store.view(kind("copy"))
        assert copy.namespaces.copied() == (await store.view(kind("trip"))).namespaces.copied()
        assert not copy.copying


async def test_a_copy_that_fails_shows_nothing_and_may_be_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with foldlog.memory_store() as store:
        await fill(store)
        watched = Watched(store, monkeypatch)

        async def fail(number: int) -> None:
            if number == 3:
                watched.appends.append(0)
                raise foldlog.LogUnavailable("away")

        watched.before = fail  # type: ignore[method-assign]
        with pytest.raises(foldlog.LogUnavailable):
            await threads(store).copy("trip", "copy")
        assert await ids(store) == []
        await threads(store).copy("trip", "copy")
        assert len(await ids(store)) == 20


@pytest.mark.parametrize("removes", [True, False])
async def test_a_copy_into_a_thread_that_is_deleted_or_held_meanwhile_has_no_effect(
    monkeypatch: pytest.MonkeyPatch, removes: bool
) -> None:
    async with foldlog.memory_store() as store:
        await fill(store)
        append, watched = store.append, Watched(store, monkeypatch)
        held = Held("held", "token", "copy", "worker", 60.0)

        async def interfere(number: int) -> None:
            if number == 3:
                watched.appends.append(0)
                await (threads(store).delete("copy") if removes else append(kind("copy"), held))

        watched.before = interfere  # type: ignore[method-assign]
        with pytest.raises(CheckpointGone if removes else ThreadHeld):
            await threads(store).copy("trip", "copy")
        assert await ids(store) == []
        assert not (await store.view(kind("copy"))).copying


async def test_what_was_copied_is_watched() -> None:
    async with foldlog.memory_store() as store:
        await fill(store, 3)
        one = threads(store)
        await one.copy("trip", "copy")
        await one.put(Place("copy", "", "0002"), checkpoint("0003"), {}, {})
        async with aclosing(one.watch("copy", None, "0000")) as rows:
            assert [(await anext(rows)).checkpoint.id for _ in range(3)] == ["0001", "0002", "0003"]


@pytest.mark.long
async def test_a_hundred_megabytes_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    async with foldlog.connect(path=tmp_path) as store:
        one, place = threads(store), ROOT
        for number in range(25):
            saved = checkpoint(f"{number:04}", {"blob": number}, blob=os.urandom(4_000_000))
            place = await one.put(place, saved, {}, {"blob": number})
        await one.copy("trip", "copy")
        await one.delete("trip")
        assert len(await ids(store)) == 25
        row = await one.get(Place("copy", "", "0024"))
        assert row is not None
        assert FORMS.value(row.values["blob"]) == saved["channel_values"]["blob"]
