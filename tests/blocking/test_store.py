"""Code without an event loop has the whole store: calls, watchers, facades, blocks, errors."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import foldlog
from foldlog import StateUpdate, TaskStatus, UpdateType
from foldlog.blocking import BlockingStore, connect
from foldlog.scoped import Scope
from foldlog.sessions import UnknownTask
from tests.support.stores import fresh_namespace


@pytest.fixture
def store(embedded_path: Path) -> Iterator[BlockingStore]:
    with connect(path=embedded_path, namespace=fresh_namespace()) as store:
        yield store


def update(id: str) -> StateUpdate:
    return StateUpdate(
        session_id="s", task_id="t", update_id=id, update_type=UpdateType.PROGRESS, content=id
    )


def ids(store: BlockingStore) -> list[str]:
    return [each.update_id for each in store.list_updates("s", limit=1000)]


def test_what_is_saved_is_read(store: BlockingStore) -> None:
    store.save_update(update("a"))
    store.save_memory_state("k", {"turns": 1})
    assert ids(store) == ["a"]
    assert store.load_memory_state("k") == {"turns": 1}
    assert store.health().durability == "fsync"
    assert "save_update" in dir(store)


def test_a_watcher_is_an_iterator(store: BlockingStore) -> None:
    store.save_update(update("a"))
    watching = store.watch_updates("s")
    assert next(watching).update_id == "a"
    later = threading.Thread(target=store.save_update, args=[update("b")])
    later.start()
    assert next(watching).update_id == "b"
    later.join()
    watching.close()


def test_a_block_is_one_append(store: BlockingStore) -> None:
    with store.atomic():
        store.save_update(update("a"))
        store.save_update(update("b"))
        assert ids(store) == []
    assert ids(store) == ["a", "b"]
    with pytest.raises(ZeroDivisionError):
        _fail_inside(store)
    assert ids(store) == ["a", "b"]


def _fail_inside(store: BlockingStore) -> None:
    with store.atomic():
        store.save_update(update("c"))
        raise ZeroDivisionError


def test_another_thread_is_not_in_the_block(store: BlockingStore) -> None:
    with store.atomic():
        other = threading.Thread(target=store.save_update, args=[update("other")])
        other.start()
        other.join()
        assert ids(store) == ["other"]


def test_facades_block_too(store: BlockingStore) -> None:
    with store.session("s") as session:
        session.spawn_task(task_id="t")
        session.start_task("t")
    assert store.session("s").get_task("t").status is TaskStatus.RUNNING
    scope = Scope.session("s")
    store.scoped.write(scope, "k", [1])
    assert store.scoped.read(scope, "k") == [1]

    async def step() -> int:
        return 7

    with store.recovery.execution("job") as execution:
        assert execution.run("step", step) == 7
    assert store.recovery.load_state("job").status.value == "completed"


def test_the_past_blocks_too(store: BlockingStore) -> None:
    store.save_update(update("a"))
    position = store.position()
    store.save_update(update("b"))
    with store.at(position) as past:
        assert [each.update_id for each in past.list_updates("s")] == ["a"]


def test_errors_are_those_of_the_call(store: BlockingStore) -> None:
    with pytest.raises(UnknownTask):
        store.session("s").start_task("none")
    with pytest.raises(foldlog.InvalidId):
        store.list_tasks("")
    with pytest.raises(AttributeError):
        store.nothing  # noqa: B018
    store.close()
    with pytest.raises(foldlog.StoreClosed):
        store.list_tasks("s")


def test_what_cannot_be_opened_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(foldlog.LogUnavailable):
        connect("nats://127.0.0.1:9", timeout=0.2)


def test_many_threads_share_one(store: BlockingStore) -> None:
    threads = [
        threading.Thread(target=lambda k=k: [store.save_update(update(f"{k}-{i}")) for i in "abc"])
        for k in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids(store)) == 24


async def test_within_a_running_loop_as_in_a_notebook(store: BlockingStore) -> None:
    store.save_update(update("a"))
    await asyncio.sleep(0)
    assert ids(store) == ["a"]
