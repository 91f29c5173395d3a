"""Graphs in durable functions: they wait for a person without a worker, and fork."""

from __future__ import annotations

from operator import add
from typing import Annotated, Any, TypedDict

from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

import foldlog
from foldlog.integrations.langgraph import FoldlogSaver
from foldlog.models import Waiting, WaitingKind

PATIENCE = 30.0


class Trip(TypedDict):
    said: Annotated[list[str], add]


class Calls:
    """What has been done, in order."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def do(self, what: str) -> str:
        self.made.append(what)
        return what


def booking(calls: Calls) -> Any:
    """A graph that searches, asks by an interrupt, and books."""

    async def search(state: Trip, runtime: Runtime[foldlog.Run]) -> dict[str, Any]:
        return {"said": [await runtime.context.step("search", calls.do, "searched")]}

    async def book(state: Trip, runtime: Runtime[foldlog.Run]) -> dict[str, Any]:
        await runtime.context.step("hold", calls.do, "held")
        if not interrupt("Book it?") or not interrupt("Sure?"):
            return {"said": ["declined"]}
        return {"said": [await runtime.context.step("book", calls.do, "booked")]}

    builder = StateGraph(Trip, context_schema=foldlog.Run)
    builder.add_node("search", search)
    builder.add_node("book", book)
    builder.add_edge(START, "search")
    builder.add_edge("search", "book")

    @foldlog.durable
    async def travel(run: foldlog.Run, city: str) -> list[str]:
        graph = builder.compile(checkpointer=FoldlogSaver(run.store))
        thread: Any = {"configurable": {"thread_id": run.session_id}}
        given: Any = {"said": [city]}
        while True:
            at = await graph.aget_state(thread)
            if at.interrupts:
                answers = {i.id: await run.ask(f"{i.id} {i.value}", i.value) for i in at.interrupts}
                given = Command(resume=answers)
            elif at.created_at:
                if not at.next:
                    said: list[str] = at.values["said"]
                    return said
                given = None
            await graph.ainvoke(given, thread, context=run, durability="sync")

    return travel


async def question_of(store: foldlog.Store, session_id: str) -> Waiting:
    """The question of the session's run."""
    async for item in store.watch_waiting(session_id=session_id):
        if item.kind is WaitingKind.QUESTION:
            return item
    raise AssertionError("nobody asks")


async def test_an_interrupt_waits_without_a_worker_and_is_answered(log: foldlog.Store) -> None:
    calls = Calls()
    travel = booking(calls)
    async with foldlog.Worker(log, [travel], slots=1):
        asking = await log.start(travel, "Oslo", id="trip", session_id="ann")
        question = await question_of(log, "ann")
        assert question.asked == "Book it?"
        # The worker takes one run at a time: it has this one to the end while the first one waits.
        other = await log.start(travel, "Bergen", id="trip", session_id="bob")
        await log.answer((await question_of(log, "bob")).id, False)
        assert await other.result(timeout=PATIENCE) == ["Bergen", "searched", "declined"]
        await log.answer(question.id, True)
        sure = await question_of(log, "ann")
        assert sure.asked == "Sure?"
        await log.answer(sure.id, True)
        assert await asking.result(timeout=PATIENCE) == ["Oslo", "searched", "booked"]
    assert calls.made == ["searched", "held", "searched", "held", "booked"]
    assert await log.waiting() == []


async def test_a_graph_forks_before_a_step_of_its_run(log: foldlog.Store) -> None:
    calls = Calls()
    travel = booking(calls)
    async with foldlog.Worker(log, [travel]):
        handle = await log.start(travel, "Oslo", id="trip", session_id="ann")
        for _ in range(2):
            await log.answer((await question_of(log, "ann")).id, True)
        await handle.result(timeout=PATIENCE)
    await log.fork("ann", at="before step hold", to="ann-2")
    calls.made.clear()
    async with foldlog.Worker(log, [travel]):
        again = await log.start(travel, "Oslo", id="trip-2", session_id="ann-2")
        await log.answer((await question_of(log, "ann-2")).id, False)
        assert await again.result(timeout=PATIENCE) == ["Oslo", "searched", "declined"]
    assert calls.made == ["held"]
    assert await handle.result() == ["Oslo", "searched", "booked"]


async def test_a_graph_forks_at_a_checkpoint_of_its_run(log: foldlog.Store) -> None:
    calls = Calls()
    travel = booking(calls)
    async with foldlog.Worker(log, [travel]):
        handle = await log.start(travel, "Oslo", id="trip", session_id="ann")
        for _ in range(2):
            await log.answer((await question_of(log, "ann")).id, True)
        await handle.result(timeout=PATIENCE)
    saver = FoldlogSaver(log)
    every = ["searched", "held", "booked"]
    made_after = {2: [], 1: every[1:], 0: every, -1: every}
    async for saved in saver.alist({"configurable": {"thread_id": "ann"}}):
        number, wanted = saved.metadata["step"], saved.checkpoint["id"]
        made = made_after.pop(number)
        fork = await saver.afork("ann", at=wanted, into=f"ann-{number}")
        latest = await saver.aget_tuple({"configurable": {"thread_id": fork}})
        assert latest.checkpoint["id"] == wanted
        assert latest.pending_writes == []
        calls.made.clear()
        async with foldlog.Worker(log, [travel]):
            again = await log.start(travel, "Oslo", id="trip", session_id=fork)
            for _ in range(2 if made else 0):
                await log.answer((await question_of(log, fork)).id, True)
            assert await again.result(timeout=PATIENCE) == ["Oslo", "searched", "booked"]
        assert list(dict.fromkeys(calls.made)) == made
    assert made_after == {}


async def test_a_task_that_has_ended_is_not_done_again(log: foldlog.Store) -> None:
    calls = Calls()

    async def searching(city: str) -> str:
        return await calls.do(f"searched {city}")

    search: Any = task(searching)

    @foldlog.durable(attempts=2)
    async def travel(run: foldlog.Run, city: str) -> str:
        async def flow(given: str, runtime: Runtime[foldlog.Run]) -> str:
            found: str = await search(given)
            if len(calls.made) == 1:
                calls.made.append("failed")
                raise ConnectionError("the railway does not answer")
            booked: str = await runtime.context.step("book", calls.do, f"booked after {found}")
            return booked

        point = entrypoint(checkpointer=FoldlogSaver(run.store), context_schema=foldlog.Run)(flow)
        thread: Any = {"configurable": {"thread_id": run.session_id}}
        has_begun = (await point.aget_state(thread)).created_at is not None
        return str(await point.ainvoke(None if has_begun else city, thread, context=run))

    async with foldlog.Worker(log, [travel]):
        handle = await log.start(travel, "Oslo", id="trip", session_id="ann")
        assert await handle.result(timeout=PATIENCE) == "booked after searched Oslo"
    assert calls.made == ["searched Oslo", "failed", "booked after searched Oslo"]
