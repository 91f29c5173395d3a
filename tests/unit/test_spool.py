"""A degrading store while its log is away: nothing lost, doubled or out of order."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.store.spool import Place
from foldlog.store.spool.file import SpoolFile
from tests.support.build import binding, task, trajectory, update
from tests.support.flaky import FlakyLog, State, files, place, spooling

MIB = 1024 * 1024


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    fields = ("event", "method", "trace_id", "exception")
    return [
        (record.levelno, *(record.__dict__[field] for field in fields))
        for record in caplog.records
        if hasattr(record, "event")
    ]


# --- away and back ------------------------------------------------------------------------------


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
        assert store.degraded == {
            "save_update": 1,
            "save_task": 1,
            "save_planner_event": 1,
            "list_tasks": 1,
            "load_history": 1,
            "load_memory_state": 1,
            "clear_session": 1,
            "atomic": 1,
        }
        assert store.spool is not None
        assert store.spool.waiting == 4
        assert store.spool.directory == tmp_path / "spool"
        await process.drained()
        assert (await store.health()).spool == store.spool
    away = "LogUnavailable('the log is away')"
    assert logged(caplog) == [
        (logging.WARNING, "statestore_save_spooled", "save_update", "trace", away),
        (logging.WARNING, "statestore_save_spooled", "save_task", None, away),
        (logging.WARNING, "statestore_save_spooled", "save_planner_event", "trace", away),
        (logging.ERROR, "statestore_load_failed", "list_tasks", None, away),
        (logging.ERROR, "statestore_load_failed", "load_history", "trace", away),
        (logging.ERROR, "statestore_load_failed", "load_memory_state", None, away),
        (logging.ERROR, "statestore_save_failed", "clear_session", None, away),
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
        assert [b.is_terminal for b in await store.list_trace_bindings("trace")] == [True]
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
        await store.clear()
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
        assert process.store.degraded == {
            "get": 1,
            "get_ref": 1,
            "exists": 1,
            "delete": 1,
            "clear_session": 1,
        }


# --- order --------------------------------------------------------------------------------------


async def test_a_later_save_never_overtakes_one_that_fails(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.gate, log.state = asyncio.Event(), "away"
        first = asyncio.create_task(process.store.save_task(task(description="running")))
        await asyncio.sleep(0)
        log.state = "up"  # the log is back before the first has failed
        later = [
            asyncio.create_task(process.store.save_task(task(description=text)))
            for text in ("almost", "done")
        ]
        both = asyncio.create_task(process.store.save_update(update("a")))
        await asyncio.sleep(0)
        log.gate.set()
        await asyncio.gather(first, *later, both)
        await process.drained()
        assert len(await log.ids("tasks")) == 3
        [found] = await process.store.list_tasks("session")
        assert found.description == "done"


async def test_saves_of_one_subject_go_together(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        await asyncio.gather(*(process.store.save_update(update(f"{n}")) for n in range(100)))
        assert len(log.calls) == 2  # the first, and all that came meanwhile
        assert await log.ids() == [f"{n}" for n in range(100)]


async def test_subjects_do_not_wait_for_each_other(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.gate = asyncio.Event()
        saves = [
            asyncio.create_task(process.store.save_update(update("a", f"{n}"))) for n in range(9)
        ]
        await asyncio.sleep(0)
        assert len(log.calls) == 9
        log.gate.set()
        await asyncio.gather(*saves)


async def test_one_save_that_is_refused_is_not_the_others_fault(tmp_path: Path) -> None:
    async with spooling(tmp_path) as process:
        large = update("large", content={"x": "x" * 9 * MIB})
        await asyncio.gather(
            *(process.store.save_update(u) for u in (update("a"), update("b"), large, update("c")))
        )
        assert process.counts == (0, 0, 0, 0)
        assert process.store.degraded == {"save_update": 1}
        assert await process.log.ids() == ["a", "b", "c"]


async def test_who_is_cancelled_while_waiting_holds_nobody_up(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.gate = asyncio.Event()
        saves = [asyncio.create_task(process.store.save_update(update(f"{n}"))) for n in range(4)]
        await asyncio.sleep(0)
        for n in (0, 2):
            saves[n].cancel()
        await asyncio.sleep(0)
        log.gate.set()
        await asyncio.gather(*saves, return_exceptions=True)
        assert [save.cancelled() for save in saves] == [True, False, True, False]
        assert await log.ids() == ["1", "3"]


# --- the disk -----------------------------------------------------------------------------------


async def test_what_does_not_fit_is_dropped_and_what_fits_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with spooling(tmp_path, limit=2000) as process:
        process.log.state = "away"
        for n in range(3):
            await process.store.save_update(update(f"{n}", content={"x": "x" * 600}))
        await process.store.save_update(update("small"))  # behind a gap, but there is room for it
        assert process.counts == (3, 3, 0, 1)
        assert process.outbox.health.bytes <= 2000
        assert process.store.degraded == {"save_update": 4}
        await process.drained()
        assert await process.log.ids() == ["0", "1", "small"]
        await process.store.save_update(update("later"))
    lost = [fields for fields in logged(caplog) if fields[0] == logging.ERROR]
    assert [fields[1:4] for fields in lost] == [("statestore_save_failed", "save_update", None)]
    assert "the spool is full" in lost[0][4]


async def test_a_disk_that_takes_nothing_more_costs_only_what_it_does_not_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: Any, offset: int) -> int:
        os.pwritev(fd, [bytes(data)[:7]], offset)  # a part of it got through
        raise OSError(errno.ENOSPC, "no space left on device")

    async with spooling(tmp_path) as process:
        process.log.state = "away"
        await process.store.save_update(update("a"))
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            await process.store.save_update(update("lost"))
        await process.store.save_update(update("b"))
        assert process.counts == (2, 2, 0, 1)
        assert process.store.degraded == {"save_update": 3}
        await process.drained()
        assert await process.log.ids() == ["a", "b"]


async def test_a_spool_that_cannot_be_made_raises_nothing(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file")
    async with spooling(tmp_path) as process:
        process.log.state = "away"
        await process.store.save_update(update("lost"))
        assert process.counts == (0, 0, 0, 1)
        process.log.back()
        await process.store.save_update(update("a"))
        assert await process.log.ids() == ["a"]


async def test_many_saves_share_one_fsync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    syncs: list[int] = []
    fsync = os.fsync

    def counting(fd: int) -> None:
        syncs.append(fd)
        fsync(fd)

    async with spooling(tmp_path) as process:
        process.log.state = "away"
        await process.store.save_update(update("first"))
        # Once the drain rests, nothing else writes.
        monkeypatch.setattr(os, "fsync", counting)
        saves = (process.store.save_update(update("a", f"{n}")) for n in range(50))
        await asyncio.gather(*saves)
        assert process.counts == (51, 51, 0, 0)
        assert 1 <= len(syncs) <= 3  # the first alone, those meanwhile, and what the drain notes


async def test_nothing_is_told_before_it_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_the_disk: list[bytes] = []
    fsync = os.fsync

    def noting(fd: int) -> None:
        fsync(fd)
        on_the_disk.extend(path.read_bytes() for path in files(tmp_path))

    async with spooling(tmp_path) as process:
        process.log.state = "away"
        monkeypatch.setattr(os, "fsync", noting)
        for id in ("first", "second"):
            await process.store.save_update(update(id, content={"in": f"{id} update"}))
            assert any(f"{id} update".encode() in content for content in on_the_disk)
            on_the_disk.clear()


async def test_a_file_that_is_damaged_under_its_owner_holds_nothing_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with spooling(tmp_path) as process:
        process.log.state = "away"
        for id in ("a", "b", "c"):
            await process.store.save_update(update(id, content={"x": f"only in {id}"}))
        [path] = files(tmp_path)
        content = path.read_bytes()
        path.write_bytes(content.replace(b"only in b", b"ONLY in b"))
        await process.drained()
        await process.store.save_update(update("d"))
        assert process.counts == (0, 3, 1, 2)
        assert await process.log.ids() == ["a", "d"]
        [aside] = files(tmp_path)
        assert aside.suffix == ".damaged"
        assert any(str(aside) in record.getMessage() for record in caplog.records)


async def test_what_the_log_will_never_take_does_not_hold_up_the_rest(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with spooling(tmp_path) as process:
        process.log.state = "away"
        await process.store.save_update(update("a"))
        await process.store.save_update(update("large", content={"x": "x" * 9 * MIB}))
        await process.store.save_update(update("b"))
        await process.drained()
        assert await process.log.ids() == ["a", "b"]
        assert process.counts == (0, 3, 2, 1)
    assert [f[1:4] for f in logged(caplog) if f[0] == logging.ERROR] == [
        ("statestore_spool_refused", "append", None)
    ]


# --- processes that end -------------------------------------------------------------------------


async def crashed(tmp_path: Path, log: FlakyLog, save: Callable[[foldlog.Store], Any]) -> None:
    """A process that spools and ends without letting go of anything."""
    async with spooling(tmp_path, log) as process:
        log.state = "away"
        await save(process.store)
        left = {path: path.read_bytes() for path in files(tmp_path)}
    for path, content in left.items():
        path.write_bytes(content)


async def test_the_next_process_appends_what_waits_before_anything_else(tmp_path: Path) -> None:
    log = FlakyLog()
    await crashed(tmp_path, log, lambda store: store.save_update(update("a")))
    await crashed(tmp_path, log, lambda store: store.save_update(update("b")))
    log.state = "up"
    async with spooling(tmp_path, log) as process:
        assert process.counts == (0, 0, 2, 0)
        await process.store.save_update(update("c"))
        assert await log.ids() == ["a", "b", "c"]
        assert files(tmp_path) == []


async def test_a_process_that_finds_the_log_away_queues_behind(tmp_path: Path) -> None:
    log = FlakyLog()
    await crashed(tmp_path, log, lambda store: store.save_update(update("a")))
    async with spooling(tmp_path, log) as process:
        await process.store.save_update(update("b"))
        assert process.counts == (2, 1, 0, 0)
        await process.drained()
        assert await log.ids() == ["a", "b"]


async def test_what_was_being_appended_at_a_crash_is_not_doubled(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.state = "away"
        for id in ("a", "b"):
            await process.store.save_memory_state("key", {"id": id})
        [path] = files(tmp_path)
        at_the_append: list[bytes] = []
        log.before_append = lambda: at_the_append.append(path.read_bytes())
        await process.drained()
        log.before_append = lambda: None
        await process.store.save_memory_state("key", {"id": "c"})
    path.write_bytes(at_the_append[-1])
    async with spooling(tmp_path, log) as process:
        assert process.counts[0] == 0
        assert len(await log.ids("memory", "key")) == 3
        assert await process.store.load_memory_state("key") == {"id": "c"}


async def test_two_processes_never_append_the_same(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as one:
        log.state = "away"
        await one.store.save_update(update("a"))
        async with spooling(tmp_path, log) as two:
            assert two.counts == (0, 0, 0, 0)
            await two.store.save_update(update("b"))
            await two.drained()
            await one.drained()
            assert (one.counts, two.counts) == ((0, 1, 1, 0), (0, 1, 1, 0))
    assert sorted(await log.ids()) == ["a", "b"]


async def test_one_that_lives_takes_over_what_another_left(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        await crashed(tmp_path, log, lambda store: store.save_update(update("a")))
        await process.store.save_update(update("b"))
        await process.drained()
        assert await log.ids() == ["b", "a"]


async def test_the_spool_of_another_log_is_left_alone_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = FlakyLog()
    await crashed(tmp_path, log, lambda store: store.save_update(update("a")))
    log.state = "up"
    [path] = files(tmp_path)
    async with spooling(tmp_path, log, prefix="default.other") as process:
        assert process.counts == (0, 0, 0, 0)
    async with spooling(tmp_path, log, prefix="tenant.log") as process:
        assert process.counts == (0, 0, 0, 0)
    assert files(tmp_path) == [path]
    assert [str(path) in record.getMessage() for record in caplog.records].count(True) == 1


async def test_closing_while_the_log_is_away_says_what_waits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with spooling(tmp_path) as process:
        process.log.state = "away"
        await process.store.save_update(update("a"))
    assert caplog.records[-1].getMessage() == f"envelopes that wait in {tmp_path / 'spool'}: 1"
    file = SpoolFile.adopt(files(tmp_path)[0])
    assert file is not None
    assert file.waiting == 1
    file.release()


async def test_closing_appends_what_the_log_takes(tmp_path: Path) -> None:
    log = FlakyLog()
    async with spooling(tmp_path, log) as process:
        log.state = "away"
        for n in range(3):
            await process.store.save_update(update(f"{n}", content={"x": "x" * MIB}))
        log.back()
    assert await log.ids() == ["0", "1", "2"]


# --- where --------------------------------------------------------------------------------------


def test_a_spool_belongs_to_one_log_and_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FOLDLOG_SPOOL", raising=False)
    data = tmp_path / "data"

    def server(url: str, namespace: str = "default", **options: Any) -> Place:
        return Place.of_server(None, data, namespace, url, options)

    embedded = Place.of_embedded(None, data, "default")
    assert embedded.directory == server("nats://a:1").directory == data / "spool"
    assert server("nats://a:1,nats://b:2") == server("nats://b:2,nats://a:1")
    assert server("nats://u:secret@a:1") == server("nats://a:1", user="u", password="other")
    places = [
        embedded,
        server("nats://a:1"),
        server("nats://b:1"),
        server("nats://a:1", "tenant"),
        server("nats://a:1", user="u"),
    ]
    assert len({p.prefix for p in places}) == len(places)
    # A data directory is moved with the spool in it, but one of several may not be mixed up.
    assert Place.of_embedded(None, tmp_path / "moved", "default").prefix == embedded.prefix
    monkeypatch.setenv("FOLDLOG_SPOOL", str(tmp_path / "shared"))
    one, two = (Place.of_embedded(None, tmp_path / name, "default") for name in ("one", "two"))
    assert one.directory == two.directory == tmp_path / "shared"
    assert one.prefix != two.prefix
    assert Place.of_embedded(tmp_path / "given", data, "default").directory == tmp_path / "given"


def test_names_sort_by_age_and_stay_in_their_directory(tmp_path: Path) -> None:
    where = place(tmp_path, Place.of_embedded(None, tmp_path, "../x *.y").prefix)
    made = [SpoolFile.create(*where) for _ in range(3)]
    assert [file.path for file in made] == where.files()
    assert {file.path.parent for file in made} == {where.directory}
    for file in made:
        file.remove()


@pytest.mark.parametrize(
    "options", [{"spool": ""}, {"spool": 1}, {"spool_bytes": -1}, {"spool_bytes": True}]
)
async def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(foldlog.ConfigurationError, match="spool"):
        await foldlog.connect("nats://127.0.0.1:9", **options)
