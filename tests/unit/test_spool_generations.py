"""What waited in a spool while its session was cleared does not bring the session back."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest

import foldlog
from foldlog.store.core import Backend
from foldlog.store.options import Options
from foldlog.store.spool import outbox
from tests.support.build import event, task, trajectory, update
from tests.support.flaky import FlakyLog, Spooling, spooling


def others(log: FlakyLog) -> foldlog.Store:
    """A store of another process, which the outage does not concern."""
    return foldlog.Store(Backend(log, log.blobs), Options())


@pytest.fixture(autouse=True)
def seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nothing is appended while another store clears, unless a test says so."""
    monkeypatch.setattr(outbox, "_FIRST_PAUSE", 60)


async def up_for_others(process: Spooling) -> None:
    """Bring the log back, when the process has just found it away."""
    with pytest.raises(foldlog.LogUnavailable):
        await process.outbox.settle()
    process.log.state = "up"


async def test_what_was_spooled_before_a_clearing_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with spooling(tmp_path) as process:
        await process.store.save_update(update("known"))
        await process.store.save_update(update("known", "other"))
        process.log.state = "away"
        await process.store.save_update(update("late"))
        await process.store.save_task(task())
        await process.store.save_update(update("late", "other"))
        await up_for_others(process)
        await others(process.log).clear_session("session")
        await process.drained()
        assert process.counts == (0, 3, 1, 2)
        assert await process.log.ids("updates", "other") == ["known", "late"]
        # Its tasks were empty when it was cleared: the session's own tombstone tells.
        assert await process.store.list_updates("session", consistency="strong") == []
        assert await process.store.list_tasks("session") == []
    refused = [r for r in caplog.records if r.message == "statestore_spool_refused"]
    assert {r.levelno for r in refused} == {logging.ERROR}
    assert ["was cleared at sequence" in r.__dict__["exception"] for r in refused] == [True] * 2


class Noted(msgspec.Struct):
    text: str


NOTES = foldlog.Kind(
    "notes",
    keys=("session_id", "topic"),
    records={"note.made": Noted},
    fold=foldlog.every,
    owner="session",
)


async def test_a_session_takes_users_own_kinds_with_it(tmp_path: Path) -> None:
    async with spooling(tmp_path, kinds=[NOTES]) as process:
        await process.store.save_update(update("known"))
        process.log.state = "away"
        await process.store.append(NOTES("session", "oslo"), Noted("late"))
        await process.store.append(NOTES("other", "oslo"), Noted("kept"))
        await up_for_others(process)
        await others(process.log).clear_session("session")
        await process.drained()
        # Nothing was under that key when the session was cleared: only the session's own tombstone
        # can tell.
        assert process.counts == (0, 2, 1, 1)
        assert await process.store.view(NOTES("session", "oslo"), consistency="strong") == []
        assert await process.store.view(NOTES("other", "oslo")) == [Noted("kept")]


async def test_a_trace_that_was_cleared_is_told_by_its_own_tombstone(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        await process.store.save_trajectory("trace", "session", trajectory())
        await process.store.save_event(event("trace", 1.0))
        process.log.state = "away"
        await process.store.save_event(event("trace", 2.0))
        await process.store.save_trajectory("trace", "session", trajectory("late"))
        await up_for_others(process)
        await others(process.log).clear_session("session")
        await process.drained()
        assert process.counts == (0, 3, 0, 3)
        assert await process.store.load_history("trace", consistency="strong") == []
        assert await process.store.get_trajectory("trace", "session") is None


async def test_an_atomic_block_is_refused_as_a_whole(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        await process.store.save_update(update("known"))
        process.log.state = "away"
        async with process.store.atomic():
            await process.store.save_update(update("late"))
            await process.store.save_update(update("late", "other"))
        await up_for_others(process)
        await others(process.log).clear_session("session")
        await process.drained()
        assert process.counts == (0, 2, 0, 2)
        assert await process.store.list_updates("other") == []


async def test_who_cleared_the_session_or_has_seen_it_cleared_begins_it_anew(
    tmp_path: Path,
) -> None:
    async with spooling(tmp_path) as process:
        await process.store.save_update(update("old"))
        await process.store.clear_session("session")
        process.log.state = "away"
        await process.store.save_update(update("new"))
        await process.drained()
        await others(process.log).clear_session("session")
        assert await process.store.list_updates("session", consistency="strong") == []
        process.log.state = "away"
        await process.store.save_update(update("newer"))
        await process.drained()
        assert await process.log.ids() == [(await process.log.ids())[0], "newer"]
        assert process.counts == (0, 2, 2, 0)


async def test_a_writer_that_never_saw_the_log_is_not_judged(tmp_path: Path) -> None:
    log = FlakyLog()
    await others(log).save_update(update("old"))
    await others(log).clear_session("session")
    async with spooling(tmp_path, log) as process:
        process.log.state = "away"
        await process.store.save_update(update("new"))
        await process.drained()
        assert process.counts == (0, 1, 1, 0)


async def test_what_only_a_view_has_seen_cleared_counts_as_seen(tmp_path: Path) -> None:
    class Forgetful(FlakyLog):
        def known(self, shard: int) -> int:
            return 1  # it was told of one append, and of nothing since

    log = Forgetful()
    async with spooling(tmp_path, log) as process:
        await process.store.save_update(update("old"))
        await others(log).clear_session("session")
        assert await process.store.list_updates("session", consistency="strong") == []
        log.state = "away"
        await process.store.save_update(update("new"))
        await process.drained()
        assert process.counts == (0, 1, 1, 0)
        assert [u.update_id for u in await process.store.list_updates("session")] == ["new"]
