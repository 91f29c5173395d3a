"""Runs in code that blocks: steps run on the caller's thread, and hold up no other one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

import foldlog
from foldlog import StoreClosed
from foldlog.blocking.bridge import StoreThread
from foldlog.blocking.store import BlockingStore
from foldlog.runs import RunPaused, StepChanged


@pytest.fixture
def store() -> Iterator[BlockingStore]:
    async def opened() -> foldlog.Store:
        return foldlog.memory_store()

    with BlockingStore(StoreThread(opened())) as store:
        yield store


def test_steps_run_on_the_callers_thread_and_may_use_the_store(store: BlockingStore) -> None:
    ran = list[int]()

    def remember(text: str) -> str:
        ran.append(threading.get_ident())
        store.save_memory_state("acme:ann:trip", {"text": text})
        return text.upper()

    async def later(text: str) -> str:
        ran.append(0 if threading.get_ident() != threading.main_thread().ident else 1)
        return text

    for _ in range(2):
        with store.run("job", session_id="ann") as run:
            assert run.step("remember", remember, "hello") == "HELLO"
            assert run.step("later", later, "x") == "x"
    assert ran == [threading.get_ident(), 0]
    assert store.load_memory_state("acme:ann:trip") == {"text": "hello"}
    [task] = store.list_tasks("ann")
    assert task.status == "COMPLETE"


def test_steps_within_steps_and_usage(store: BlockingStore) -> None:
    with store.run("job") as run:

        def inner() -> int:
            run.usage(input_tokens=3)
            return 1

        def outer() -> int:
            return run.step("inner", inner) + 1

        assert run.step("outer", outer) == 2
        steps = {each.step: each for each in run.steps()}
        assert (steps["inner"].parent, steps["inner"].input_tokens) == ("outer", 3)


def test_errors_come_through(store: BlockingStore) -> None:
    def fail() -> None:
        raise LookupError("no seats")

    def attempt() -> None:
        with store.run("job") as run:
            run.step("fail", fail, retries=1, pause=0.001)

    with pytest.raises(LookupError):
        attempt()
    assert [t.status.value for t in store.list_tasks("job")] == ["FAILED"]

    def ask() -> None:
        with store.run("job") as run:
            run.ask("buy", "Buy?", wait=0)

    with pytest.raises(RunPaused):
        ask()
    [item] = store.waiting()
    store.answer(item.id, True)

    def change(n: int) -> None:
        with store.run("job") as run:
            assert run.ask("buy", "Buy?", wait=0) is True
            run.step("n", abs, n)

    change(1)
    with pytest.raises(StepChanged):
        change(2)


def test_a_step_under_way_holds_up_nobody(store: BlockingStore) -> None:
    began, go_on = threading.Event(), threading.Event()

    def slow() -> bool:
        began.set()
        return go_on.wait(30)

    def work() -> None:
        with store.run("job") as run:
            run.step("slow", slow)

    thread = threading.Thread(target=work)
    thread.start()
    assert began.wait(30)
    store.save_memory_state("acme:ann:trip", {"n": 1})
    assert store.load_memory_state("acme:ann:trip") == {"n": 1}
    go_on.set()
    thread.join()
    assert [t.status.value for t in store.list_tasks("job")] == ["COMPLETE"]


def ask(store: BlockingStore, begun: threading.Event) -> None:
    with store.run("job") as run:
        begun.set()
        run.ask("buy", "Buy?")


def wait_for_a_group(store: BlockingStore, begun: threading.Event) -> None:
    session = store.session("trip")
    session.create_group("g", group_id="g")
    begun.set()
    session.wait_for_group("g")


@pytest.mark.parametrize("call", [ask, wait_for_a_group])
def test_closing_ends_a_call_that_waits(
    store: BlockingStore, call: Callable[[BlockingStore, threading.Event], None]
) -> None:
    raised, begun = list[BaseException](), threading.Event()

    def wait() -> None:
        try:
            call(store, begun)
        except StoreClosed as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert begun.wait(30)
    store.close()
    thread.join(30)
    assert [type(each) for each in raised] == [StoreClosed]
