"""A degrading store while its log is away: nothing lost, doubled or out of order."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import foldlog
from tests.support.build import binding, task, trajectory, update
from tests.support.degrading import failures_of, spool_of
from tests.support.flaky import FlakyLog, State, files, logged, spooling


@pytest.mark.parametrize("state", ["away", "not stored", "ack lost"])
async def test_what_is_saved_meanwhile_is_appended_once_and_in_order(
    tmp_path: Path, state: State
) -> None:
    async with spooling(tmp_path) as process:
        await process.store.save_update(update("a"))
        process.log.state = state
        for id in ("b", "c", "d"):
            await process.store.save_update(update(id))
        assert process.counts == (3, 3, 0, 0)
        assert len(files(tmp_path)) == 1
        await process.drained()
        assert process.counts == (0, 3, 3, 0)
        await process.store.save_update(update("e"))
        assert await process.log.ids() == ["a", "b", "c", "d", "e"]
        assert [u.update_id for u in await process.store.list_updates("session")] == list("abcde")
        assert files(tmp_path) == []  # nothing waits, nothing stays
        assert process.outbox.health.bytes == 0


async def test_nothing_is_silent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with spooling(tmp_path) as process:
        process.log.state = "away"
        store = process.store
        await store.save_update(update("a", trace_id="trace"))
        await store.save_task(task())
        await store.save_planner_event("trace", foldlog.PlannerEvent("k", 1.0, 0))
        assert await store.list_tasks("session") == []
        assert await store.load_history("trace") == []
        assert await store.load_memory_state("key") is None
        await store.clear_session("session")
        async with store.atomic():
            await store.save_update(update("b"))
        assert failures_of(store) == {
            "save_update": 1,
            "save_task": 1,
            "save_planner_event": 1,
            "list_tasks": 1,
            "load_history": 1,
            "load_memory_state": 1,
            "clear_session": 1,
            "atomic": 1,
        }
        assert spool_of(store).waiting == 4
        assert spool_of(store).directory == str(tmp_path / "spool")
        await process.drained()
        assert (await store.health()).spool == spool_of(store)
    away = "LogUnavailable('the log is away')"
    waits = "LogUnavailable('earlier saves wait in the spool: the log is away')"
    assert logged(caplog) == [
        (logging.WARNING, "statestore_save_spooled", "save_update", "trace", away),
        (logging.WARNING, "statestore_save_spooled", "save_task", None, away),
        (logging.WARNING, "statestore_save_spooled", "save_planner_event", "trace", away),
        (logging.ERROR, "statestore_load_failed", "list_tasks", None, away),
        (logging.ERROR, "statestore_load_failed", "load_history", "trace", away),
        (logging.ERROR, "statestore_load_failed", "load_memory_state", None, away),
        (logging.ERROR, "statestore_save_failed", "clear_session", None, waits),
        (logging.WARNING, "statestore_save_spooled", "atomic", None, away),
    ]


async def test_a_repetition_never_replaces_what_came_later(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.state = "ack lost"
        await process.store.save_memory_state("key", {"by": "us"})
        log.state = "up"
        async with foldlog.memory_store(log=log) as other:
            await other.save_memory_state("key", {"by": "them"})
            await process.drained()
            assert len(await log.ids("memory", "key")) == 2
            for store in (other, process.store):
                await store.rebuild("memory")
                assert await store.load_memory_state("key") == {"by": "them"}


async def test_an_attempt_that_the_server_gets_round_to_late_is_found(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        process.log.state = "not stored"
        await process.store.save_memory_state("key", {"n": 1})

        def late() -> None:
            if process.log.state == "up":  # after a look at the log that has not found it
                process.log.get_round_to_it()

        process.log.before_append = late
        await process.drained()
        assert len(await process.log.ids("memory", "key")) == 1
        assert process.counts == (0, 1, 1, 0)


async def test_an_attempt_that_is_stored_after_its_repetition_shows_nothing_old(
    tmp_path: Path,
) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        await process.store.save_memory_state("key", {"n": 0})
        log.state = "not stored"
        await process.store.save_memory_state("key", {"n": 1})
        await process.store.save_trajectory("trace", "session", trajectory())
        await process.drained()
        await process.store.save_memory_state("key", {"n": 2})
        assert log.unsettled
        log.get_round_to_it()  # over a connection of before
        assert len(await log.ids("memory", "key")) == 3
        async with foldlog.memory_store(log=log) as other:
            for store in (other, process.store):
                assert await store.load_memory_state("key") == {"n": 2}
            assert await other.get_trajectory("trace", "session") == trajectory()


async def test_what_others_write_meanwhile_is_no_conflict(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process, foldlog.memory_store(log=log) as other:
        for n in range(3):
            await other.save_memory_state("key", {"by": "them", "n": n})
            await process.store.save_memory_state("key", {"by": "us", "n": n})
        assert await other.load_memory_state("key") == {"by": "us", "n": 2}
        assert failures_of(process.store) == {}


async def test_a_busy_writer_does_not_go_through_the_spool_for_ever(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        process.log.state = "away"
        await process.store.save_update(update("0"))
        process.log.back()
        for n in range(1, 1000):
            await process.store.save_update(update(f"{n}"))
            if process.counts[0] == 0:
                break
        await process.store.save_update(update("last"))
        waiting, spooled, drained, _ = process.counts
        assert (waiting, spooled) == (0, drained)
        assert spooled <= n
        assert await process.log.ids() == [f"{m}" for m in range(n + 1)] + ["last"]


async def test_every_kind_of_save_is_kept(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        store = process.store
        process.log.state = "away"
        await store.save_remote_binding(binding("task", router_session_id="router"))
        await store.mark_binding_terminal(trace_id="trace", context_id="ctx", task_id="task")
        await store.save_trajectory("trace", "session", trajectory())
        await store.save_planner_state("token", {"n": 1})
        assert await store.load_planner_state("token") is None
        await process.drained()
        assert [b.is_terminal for b in await store.list_bindings(trace_id="trace")] == [True]
        assert len(await store.list_bindings(router_session_id="router")) == 1
        assert await store.get_trajectory("trace", "session") == trajectory()
        assert await store.load_planner_state("token") == {"n": 1}
        assert await store.load_planner_state("token") is None


async def test_what_waits_comes_before_what_is_decided_on_the_log(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        store = process.store
        process.log.state = "away"
        await store.save_planner_state("token", {"n": 1})
        await store.save_update(update("a"))
        process.log.state = "up"  # nobody says so
        assert await store.load_planner_state("token") == {"n": 1}
        process.log.state = "away"
        await store.save_update(update("b"))
        process.log.state = "up"
        await store.clear_session("session")
        assert await store.list_updates("session") == []
        process.log.state = "away"
        await store.save_memory_state("key", {"n": 1})
        process.log.state = "up"
        await store.clear(store.log.namespace.name)
        assert await store.load_memory_state("key") is None
        assert process.counts[0] == 0


async def test_a_block_is_spooled_and_appended_whole(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        store, log = process.store, process.log
        log.state = "away"
        await store.save_update(update("before"))
        async with store.atomic():
            await store.save_update(update("a", "one"))
            await store.save_update(update("b", "two"))
        await store.save_update(update("after"))
        with pytest.raises(RuntimeError):
            await _gives_up(store)
        log.calls.clear()
        await process.drained()
        assert [call for call in log.calls if call[1] == 2] == [(True, 2)]
        assert await log.ids() == ["before", "after"]
        assert (await log.ids("updates", "one"), await log.ids("updates", "two")) == (["a"], ["b"])


async def _gives_up(store: foldlog.Store) -> None:
    async with store.atomic():
        await store.save_update(update("c", "one"))
        raise RuntimeError


async def test_artifacts_are_read_as_if_there_were_none_and_saved_or_refused(
    tmp_path: Path,
) -> None:
    async with spooling(tmp_path) as process:
        artifacts = process.store.artifact_store
        ref = await artifacts.put_bytes(b"kept")
        process.log.state = "away"
        with pytest.raises(foldlog.LogUnavailable):
            await artifacts.put_bytes(b"not kept")
        with pytest.raises(foldlog.LogUnavailable):
            await artifacts.put_text("not kept")
        assert await artifacts.get(ref.id) is None
        assert await artifacts.get_ref(ref.id) is None
        assert await artifacts.exists(ref.id) is False
        assert await artifacts.delete(ref.id) is False
        await artifacts.clear_session("session")
        await process.drained()
        assert await artifacts.get(ref.id) == b"kept"
        assert failures_of(process.store) == {
            "get": 1,
            "get_ref": 1,
            "exists": 1,
            "delete": 1,
            "clear_session": 1,
        }
