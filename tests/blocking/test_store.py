"""Code without an event loop has the whole store: calls, watchers, facades, blocks, errors."""

from __future__ import annotations

import asyncio
import inspect
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog import StateUpdate, TaskStatus, UpdateType
from foldlog.agents import TurnStateContext
from foldlog.blocking import BlockingStore, connect
from foldlog.blocking.desk import Desk
from foldlog.errors import NotFound
from foldlog.scoped import Scope
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


def test_a_turn_inside_a_block_goes_with_it(store: BlockingStore) -> None:
    with pytest.raises(ZeroDivisionError):
        _fail_after_a_turn(store)
    assert store.agents.scopes() == []
    with store.atomic(), store.agents.turn("shop/1") as ctx:
        ctx.update("cart", {"apple": 1})
    assert store.agents.scopes() == ["shop/1"]


def _fail_after_a_turn(store: BlockingStore) -> None:
    with store.atomic():
        with store.agents.turn("shop/1") as ctx:
            ctx.update("cart", {"apple": 1})
        raise ZeroDivisionError


def test_a_transaction_runs_again_after_a_conflict(store: BlockingStore) -> None:
    tries: list[str] = []

    def body() -> int:
        with store.agents.turn("shop/1") as ctx:
            ctx.update(f"mine-{len(tries)}", 1)
        if not tries:
            other = threading.Thread(target=_take_a_turn, args=[store])
            other.start()
            other.join()
        tries.append("")
        return len(tries)

    assert store.transact(body) == 2
    with store.agents.turn("shop/1") as ctx:
        found = [ctx.get(name, int) for name in ("mine-0", "mine-1", "theirs")]
    assert found == [0, 1, 1]


def _take_a_turn(store: BlockingStore) -> None:
    with store.agents.turn("shop/1") as ctx:
        ctx.update("theirs", 1)


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

    with store.run("job") as run:
        assert run.step("step", step) == 7
        assert run.step("plain", len, "Oslo") == 4
    assert store.session("job").get_task("job").status is TaskStatus.COMPLETE


def test_the_past_blocks_too(store: BlockingStore) -> None:
    store.save_update(update("a"))
    position = store.position()
    store.save_update(update("b"))
    with store.at(position) as past:
        assert [each.update_id for each in past.list_updates("s")] == ["a"]


def test_errors_are_those_of_the_call(store: BlockingStore) -> None:
    with pytest.raises(NotFound):
        store.session("s").start_task("none")
    with pytest.raises(foldlog.InvalidId):
        store.list_tasks("")
    with pytest.raises(AttributeError):
        store.nothing  # noqa: B018
    store.close()
    with pytest.raises(foldlog.StoreClosed):
        store.list_tasks("s")


def test_what_cannot_be_opened_is_said_at_once(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(foldlog.LogUnavailable):
        connect("nats://127.0.0.1:9", timeout=0.2)
    assert set(threading.enumerate()) <= before


PUBLIC = [
    name
    for name, method in inspect.getmembers(foldlog.Store, inspect.isfunction)
    if not name.startswith("_")
]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_method_of_a_store_blocks(store: BlockingStore, name: str) -> None:
    method = getattr(store, name)
    assert not inspect.iscoroutinefunction(method)
    assert (
        name in {"close", "transact"}  # which are of its own making
        or inspect.getdoc(method) == inspect.getdoc(getattr(foldlog.Store, name))
    )


def test_a_kind_of_ones_own(embedded_path: Path) -> None:
    class Asked(msgspec.Struct, frozen=True):
        id: str

    asked = foldlog.Kind(
        "asked", keys=("session_id",), records={"asked": Asked}, fold=foldlog.last_by("id")
    )
    with connect(path=embedded_path, namespace=fresh_namespace(), kinds=[asked]) as store:
        store.append(asked("s"), Asked("one"))
        store.decide(asked("s"), lambda state: [Asked("two")] if "one" in state else [])
        assert list(store.view(asked("s"))) == ["one", "two"]
        assert [item.record.id for item in store.items(asked("s"))] == ["one", "two"]
        assert store.keys(asked) == [asked("s")]
        watching = store.watch(asked("s"))
        assert [next(watching).record.id for _ in range(2)] == ["one", "two"]
        watching.close()


def test_turns_of_agents_block(store: BlockingStore) -> None:
    with store.agents.turn("shop/1", label="first") as ctx:
        ctx.update("cart", {"apple": 1})
        assert ctx.get("cart", dict) == {"apple": 1}
        assert store.agents.get_agent_state("shop/1", "cart", dict) is None
    with pytest.raises(ZeroDivisionError):
        _fail_inside_a_turn(store)
    entry = store.agents.get_agent_state("shop/1", "cart", dict)
    assert (entry.state, entry.version) == ({"apple": 1}, ctx.version)
    ctx = store.agents.turn("shop/1")
    ctx.delete("cart")
    ctx.complete("second")

    async def body(ctx: TurnStateContext) -> int:
        ctx.update("count", 1 + await ctx.get("count", int))
        return 7

    assert store.agents.run_turn("shop/1", body) == 7
    assert [v.label for v in store.agents.history("shop/1")] == ["first", "second", ""]
    changes = store.agents.watch("shop/1", after=0)
    assert next(changes).changes[0].after == {"apple": 1}
    changes.close()
    manager = store.agents.repository.create_manager(dict, "other")
    assert manager.scopes() == []


def _fail_inside_a_turn(store: BlockingStore) -> None:
    with store.agents.turn("shop/1") as ctx:
        ctx.update("cart", {"pear": 1})
        raise ZeroDivisionError


def test_files_block(store: BlockingStore) -> None:
    ref = store.artifact_store.put_text("hello")
    assert store.artifact_store.get(ref.id) == b"hello"


def test_close_ends_the_watchers_of_other_threads(store: BlockingStore) -> None:
    store.save_update(update("a"))
    seen: queue.Queue[str] = queue.Queue()

    def watch() -> None:
        try:
            for each in store.watch_updates("s"):
                seen.put(each.update_id)
        except foldlog.StoreClosed:
            seen.put("closed")

    watchers = [threading.Thread(target=watch) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    assert [seen.get(timeout=30) for _ in watchers] == ["a"] * 3
    store.close()
    for watcher in watchers:
        watcher.join(30)
    assert [seen.get_nowait() for _ in watchers] == ["closed"] * 3


@pytest.mark.parametrize("where", ["its thread", "a call that begins"])
def test_a_watcher_is_closed_wherever_the_collector_drops_it(
    store: BlockingStore, where: str
) -> None:
    closed = threading.Event()

    async def watched() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            closed.set()

    held = [store._iterated(watched())]
    assert next(held[0]) == 1

    async def drop(_: foldlog.Store) -> None:
        held.clear()

    def drops() -> None:
        if where == "its thread":
            store.thread.call(drop)
        else:
            store.thread.hand_over(lambda _: held.clear())

    dropping = threading.Thread(target=drops, daemon=True)
    dropping.start()
    assert closed.wait(30)
    dropping.join(30)
    assert not dropping.is_alive()
    store.save_update(update("a"))
    assert ids(store) == ["a"]


def test_a_process_ends_in_peace_that_searched_and_closes_nothing(tmp_path: Path) -> None:
    program = f"""
from foldlog.blocking import connect
from foldlog.scoped import Scope
store = connect(path={str(tmp_path)!r})
store.scoped.write(Scope.session("s"), "key", "words")
print(len(store.scoped.search(Scope.session("s"), "words", 1)))
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("1\n", "")


def test_ctrl_c_ends_the_call_and_leaves_the_store(
    store: BlockingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = threading.main_thread().ident
    assert main is not None
    began, waits, ended = threading.Event(), threading.Event(), threading.Event()

    class Work(queue.Queue[Any]):
        def get(self, *args: Any, **kwargs: Any) -> Any:
            waits.set()  # before that, nobody could end the step
            return super().get(*args, **kwargs)

    def made(desk: Desk) -> None:
        desk._work = Work()  # type: ignore[assignment]

    monkeypatch.setattr(Desk, "__init__", made)

    async def step() -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    def interrupt() -> None:
        began.wait(30)
        waits.wait(30)
        signal.pthread_kill(main, signal.SIGINT)

    other = threading.Thread(target=interrupt)
    other.start()
    run = store.run("job")
    with pytest.raises(KeyboardInterrupt):
        _run(run, step)
    other.join()
    assert ended.wait(30)
    store.save_update(update("a"))
    assert ids(store) == ["a"]


def _run(run: Any, step: Callable[[], Awaitable[None]]) -> None:
    with run as opened:
        opened.step("step", step)


def test_a_callback_that_calls_the_store_is_refused(store: BlockingStore) -> None:
    def decision(state: object) -> list[Any]:
        store.position()
        return []

    with pytest.raises(foldlog.Misuse, match="own thread"):
        store.decide(foldlog.kinds.tasks("s"), decision)


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
