"""A degrading store whose log is away from the start: it spools until it has reached the log."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

import foldlog
from foldlog.errors import ConfigurationError, LogUnavailable, UnsupportedServer
from foldlog.log.archive import Archiver
from foldlog.log.snapshots import SnapshotStore
from foldlog.opening import connecting, standby
from foldlog.store.core import Backend
from foldlog.store.spool import Place
from foldlog.subjects import Namespace
from tests.support.build import trajectory, update
from tests.support.degrading import failures_of, spool_of
from tests.support.flaky import FlakyLog, crashed, files, logged, spooling

PATIENCE = 30  # seconds until what should end is called hung
URL = "nats://127.0.0.1:9"


class ClosingLog(FlakyLog):
    """Tells whether it was closed."""

    closed = False

    async def close(self) -> None:
        self.closed = True


class Coming:
    """A log that is reached for: each attempt ends as the test says, in the order it says so."""

    def __init__(self, log: ClosingLog) -> None:
        self.log = log
        self.archiver: Archiver | None = None
        self.snapshots: SnapshotStore | None = log.snapshots
        self.given_up = 0
        self._answers: asyncio.Queue[Exception | None] = asyncio.Queue()
        self._asked = asyncio.Queue[None]()

    async def __call__(self) -> Backend:
        self._asked.put_nowait(None)
        try:
            answer = await self._answers.get()
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        if answer is not None:
            raise answer
        return Backend(self.log, self.log.blobs, self.snapshots, archiver=self.archiver)

    async def asked(self) -> None:
        """Until there is another attempt: all that the one before it did is done."""
        async with asyncio.timeout(PATIENCE):
            await self._asked.get()

    def fails(self, *errors: Exception) -> None:
        for error in errors:
            self._answers.put_nowait(error)

    def comes(self) -> None:
        self._answers.put_nowait(None)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standby, "_FIRST_PAUSE", 0)
    monkeypatch.setattr(standby, "_MISTAKE_PAUSE", 0)


@pytest.fixture
def coming() -> Coming:
    return Coming(ClosingLog())


@asynccontextmanager
async def standing_by(
    tmp_path: Path, coming: Coming, namespace: Namespace | None = None
) -> AsyncGenerator[foldlog.Store]:
    """A store that was opened while nobody answered, and has begun to reach for the log."""
    coming.fails(LogUnavailable("nobody answers"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connecting, "_reach", lambda settings: coming())
        opening = foldlog.connect(
            URL,
            spool=tmp_path / "spool",
            on_error="degrade",
            shards=(namespace or Namespace()).shards,
        )
        async with opening as store:
            await coming.asked()
            yield store


PREFIX = Place.of_server(None, Path(), "default", URL, {}).prefix


async def watched(store: foldlog.Store, count: int, session: str = "session") -> list[str]:
    """The ids of so many updates, as somebody sees them who watches."""
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(cast(Any, store.watch_updates(session))) as updates,
    ):
        return [(await anext(updates)).update_id for _ in range(count)]


async def test_what_is_saved_before_the_log_comes_is_appended_once_and_in_order(
    tmp_path: Path, coming: Coming, caplog: pytest.LogCaptureFixture
) -> None:
    async with standing_by(tmp_path, coming) as store:
        for n in range(3):
            await store.save_update(update(f"{n}"))
        await store.save_memory_state("key", {"n": 1})
        await store.save_memory_state("key", {"n": 2})
        async with store.atomic():
            await store.save_update(update("3"))
            await store.save_trajectory("trace", "session", trajectory())
        assert await store.list_updates("session") == []
        assert await store.load_memory_state("key") is None
        assert await store.artifact_store.get("art") is None
        assert spool_of(store).waiting == spool_of(store).spooled > 6
        assert len(files(tmp_path)) == 1
        coming.comes()
        assert await watched(store, 4) == ["0", "1", "2", "3"]
        await store.save_update(update("4"))
        assert [u.update_id for u in await store.list_updates("session")] == list("01234")
        assert await coming.log.ids() == list("01234")
        assert await store.load_memory_state("key") == {"n": 2}
        assert len(await coming.log.ids("memory", "key")) == 2
        assert await store.get_trajectory("trace", "session") == trajectory()
        saved = await store.artifact_store.put_bytes(b"bytes")
        assert await store.artifact_store.get(saved.id) == b"bytes"
        assert (await store.health()).away is None
    assert coming.log.closed
    assert files(tmp_path) == []
    assert logged(caplog)[0] == (
        logging.WARNING,
        "statestore_connect_failed",
        "connect",
        None,
        "LogUnavailable('nobody answers')",
    )
    assert failures_of(store)["connect"] == 1


async def test_what_waiting_does_not_heal_is_told_counted_and_shown(
    tmp_path: Path, coming: Coming, caplog: pytest.LogCaptureFixture
) -> None:
    async with standing_by(tmp_path, coming) as store:
        health = await store.health()
        assert health.away == "LogUnavailable: nobody answers"
        assert (health.server_version, health.streams, health.durability) == ("", (), "unknown")
        assert health.spool == spool_of(store)
        await store.save_update(update("a"))
        refused = ConfigurationError("it refuses user 'x'")
        coming.fails(LogUnavailable("still nobody"), refused, refused, UnsupportedServer("too old"))
        coming.fails(ValueError("a bug"))
        for _ in range(6):
            await coming.asked()
        assert failures_of(store)["connect"] == 4
        lines = [fields for fields in logged(caplog) if fields[2] == "connect"]
        assert [(fields[0], fields[4].partition("(")[0]) for fields in lines] == [
            (logging.WARNING, "LogUnavailable"),
            (logging.ERROR, "ConfigurationError"),
            (logging.ERROR, "UnsupportedServer"),
            (logging.ERROR, "FoldlogError"),
        ]
        assert "a bug" in ((await store.health()).away or "")
        coming.comes()  # somebody has put it right
        assert await watched(store, 1) == ["a"]


async def test_asking_why_keeps_nothing_of_who_asked(tmp_path: Path, coming: Coming) -> None:
    async with standing_by(tmp_path, coming) as store:
        depths = list[int]()
        for _ in range(3):
            with pytest.raises(LogUnavailable) as why:
                await store._core.log.info()
            depths.append(len(list(traceback.walk_tb(why.value.__traceback__))))
    assert len(set(depths)) == 1


async def test_closing_gives_up_and_leaves_what_waits_to_the_next(
    tmp_path: Path, coming: Coming
) -> None:
    async with standing_by(tmp_path, coming) as store:
        await store.save_update(update("a"))
        await coming.asked()
    assert coming.given_up == 1
    assert not coming.log.closed
    await store.save_update(update("b"))  # it is closed: counted, and kept nowhere
    assert len(files(tmp_path)) == 1
    async with spooling(tmp_path, coming.log, prefix=PREFIX):
        assert await coming.log.ids() == ["a"]


async def test_closing_before_the_first_attempt(tmp_path: Path, coming: Coming) -> None:
    async with standing_by(tmp_path, coming) as store:
        pass
    await store.close()
    assert coming.given_up == 0


async def test_a_log_that_comes_as_the_store_is_closed_is_closed_too(
    tmp_path: Path, coming: Coming
) -> None:
    async with standing_by(tmp_path, coming) as store:
        await store.save_update(update("a"))
        await coming.asked()
        coming.log.gate = asyncio.Event()  # no append ends
        coming.comes()
        await coming.log.called()
        closing = asyncio.create_task(store.close())
        coming.log.gate.set()
        await closing
    assert coming.log.closed
    assert await coming.log.ids() == ["a"]
    assert files(tmp_path) == []


async def test_what_processes_have_left_comes_first(tmp_path: Path, coming: Coming) -> None:
    await crashed(
        tmp_path,
        FlakyLog(),
        lambda store: store.save_update(update("left before")),
        prefix=PREFIX,
    )
    async with standing_by(tmp_path, coming) as store:
        await store.save_update(update("own"))
        coming.comes()
        assert await watched(store, 2) == ["left before", "own"]


async def test_what_is_left_meanwhile_is_taken_over_though_nothing_else_waits(
    tmp_path: Path, coming: Coming
) -> None:
    async with standing_by(tmp_path, coming) as store:
        left = update("left")
        await crashed(tmp_path, FlakyLog(), lambda store: store.save_update(left), prefix=PREFIX)
        coming.comes()
        assert await watched(store, 1) == ["left"]


async def test_a_namespace_of_several_shards(tmp_path: Path) -> None:
    coming = Coming(ClosingLog(Namespace("default", 4)))
    sessions = [f"session-{n}" for n in range(8)]
    async with standing_by(tmp_path, coming, Namespace("default", 4)) as store:
        watchers = [asyncio.create_task(watched(store, 4, session)) for session in sessions]
        for n in range(3):
            for session in sessions:
                await store.save_update(update(f"{n}", session))
                await store.save_memory_state(session, {"n": n})
        coming.comes()
        assert await watched(store, 3, sessions[0]) == ["0", "1", "2"]
        for session in sessions:
            await store.save_update(update("3", session))
        assert await asyncio.gather(*watchers) == [["0", "1", "2", "3"]] * 8
        for session in sessions:
            assert await coming.log.ids("updates", session) == ["0", "1", "2", "3"]
            assert await store.load_memory_state(session) == {"n": 2}
        assert len({s.shard for s in await coming.log.subjects("updates")}) > 1


async def test_a_namespace_that_turns_out_to_have_several_shards_is_refused_and_loses_nothing(
    tmp_path: Path,
) -> None:
    coming = Coming(ClosingLog(Namespace("default", 4)))
    async with standing_by(tmp_path, coming) as store:
        for n in range(3):
            await store.save_update(update(f"{n}"))
        coming.comes()
        await coming.asked()
        await coming.asked()
        assert coming.log.closed
        away = (await store.health()).away or ""
        assert away.startswith("ConfigurationError: ")
        assert "4 shard(s)" in away
        await store.save_update(update("3"))
        assert spool_of(store).waiting == 4
    async with spooling(tmp_path, coming.log, prefix=PREFIX):
        assert await coming.log.ids() == ["0", "1", "2", "3"]


async def test_a_log_that_goes_again_is_waited_for_as_any_other(
    tmp_path: Path, coming: Coming
) -> None:
    async with standing_by(tmp_path, coming) as store:
        await store.save_update(update("a"))
        coming.log.state = "ack lost"
        coming.comes()
        await coming.log.called()
        await store.save_update(update("b"))
        coming.log.back()
        assert await watched(store, 2) == ["a", "b"]
        coming.log.state = "away"
        await store.save_update(update("c"))
        coming.log.back()
        assert await watched(store, 3) == ["a", "b", "c"]
        assert await coming.log.ids() == ["a", "b", "c"]


async def test_what_cannot_be_answered_without_a_log_raises(tmp_path: Path, coming: Coming) -> None:
    async with standing_by(tmp_path, coming) as store:
        with pytest.raises(LogUnavailable, match="nobody answers"):
            await store.artifact_store.put_bytes(b"kept nowhere")
        with pytest.raises(LogUnavailable):
            await store.rebuild()
        with pytest.raises(LogUnavailable):
            await store.position()
        await store.clear_session("session")
        assert failures_of(store)["clear_session"] == 1


async def test_a_log_that_was_rewound_is_waited_for_until_it_is_accepted(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        await process.store.save_update(update("a"))
        process.log.rewound = foldlog.LogRewound("FOLDLOG_default_0", 7, "it ends at 1")
        await process.store.save_update(update("b"))
        assert process.counts == (1, 1, 0, 0)
        process.log.rewound = None
        await process.drained()
        assert await process.log.ids() == ["a", "b"]


async def test_a_mistake_is_shown_and_not_tried_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "_MISTAKE_PAUSE", 3600)
    coming = Coming(ClosingLog(Namespace("default", 4)))
    async with standing_by(tmp_path, coming) as store:
        await coming.asked()
        coming.comes()
        for _ in range(100):  # any other failure is tried again in the next turn of the loop
            await asyncio.sleep(0)
        assert "4 shard(s)" in ((await store.health()).away or "")
        with pytest.raises(asyncio.QueueEmpty):
            coming._asked.get_nowait()
