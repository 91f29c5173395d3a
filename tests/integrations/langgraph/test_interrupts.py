"""Interrupts of graphs are on the list of what waits for a person, one entry each."""

from __future__ import annotations

import asyncio
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

import foldlog
from foldlog.integrations.langgraph import FoldlogSaver, ThreadHeld
from foldlog.words import question
from tests.integrations.langgraph.cipher import Cipher

TRIP: Any = {"configurable": {"thread_id": "trip"}}


class State(TypedDict):
    said: Annotated[list[str], add]


def asks(*questions: str) -> Any:
    """A node that asks one after another."""
    return lambda _: {"said": [interrupt(each) for each in questions]}


def graph(saver: FoldlogSaver, **nodes: Any) -> Any:
    built = StateGraph(State)
    for name, node in nodes.items():
        built.add_node(name, node)
        built.add_edge(START, name)
    return built.compile(checkpointer=saver)


async def asked(log: foldlog.Store) -> list[str]:
    return [question(each) for each in await log.waiting()]


async def test_an_interrupt_waits_until_its_thread_goes_on(log: foldlog.Store) -> None:
    runs = graph(FoldlogSaver(log), book=asks("Book it?"))
    await runs.ainvoke({"said": []}, TRIP)
    [waits] = await log.waiting(session_id="trip")
    assert question(waits) == "Book it?"
    assert (waits.session_id, waits.until) == ("trip", None)
    assert "Command(resume=" in waits.asked["answer_in"]
    answer = Command(resume={waits.asked["payload"]["question"][0]["id"]: "yes"})
    assert await runs.ainvoke(answer, TRIP) == {"said": ["yes"]}
    assert await log.waiting() == []


async def test_a_task_that_asks_again_waits_again(log: foldlog.Store) -> None:
    runs = graph(FoldlogSaver(log), book=asks("Sure?", "Sure?", "Seat?"))
    await runs.ainvoke({"said": []}, TRIP)
    ids = set()
    for each in ("Sure?", "Sure?", "Seat?"):
        [waits] = await log.waiting()
        assert question(waits) == each
        ids.add(waits.id)
        await runs.ainvoke(Command(resume="yes"), TRIP)
    assert (len(ids), await log.waiting()) == (3, [])


async def test_tasks_side_by_side_wait_for_an_answer_each(log: foldlog.Store) -> None:
    runs = graph(FoldlogSaver(log), hotel=asks("Hotel?"), car=asks("Car?"))
    state = await runs.ainvoke({"said": []}, TRIP)
    assert sorted(await asked(log)) == ["Car?", "Hotel?"]
    [car] = [each.id for each in state["__interrupt__"] if each.value == "Car?"]
    await runs.ainvoke(Command(resume={car: "no"}), TRIP)
    assert await asked(log) == ["Hotel?"]
    await runs.ainvoke(Command(resume="yes"), TRIP)
    assert await log.waiting() == []


async def test_a_question_of_a_subgraph_is_one_entry(log: foldlog.Store) -> None:
    inner = StateGraph(State).add_node("ask", asks("Inside?")).add_edge(START, "ask").compile()
    runs = graph(FoldlogSaver(log), inner=inner)
    await runs.ainvoke({"said": []}, TRIP)
    assert await asked(log) == ["Inside?"]
    await runs.ainvoke(Command(resume="yes"), TRIP)
    assert await log.waiting() == []


async def test_calls_to_approve_are_shown_as_calls(log: foldlog.Store) -> None:
    value = {"action_requests": [{"name": "pay", "args": {"euros": 80}}]}
    await graph(FoldlogSaver(log), pay=lambda _: interrupt(value)).ainvoke({"said": []}, TRIP)
    assert await asked(log) == ['pay({"euros":80})']


@pytest.mark.parametrize("how", ["update", "delete", "erase"])
async def test_what_nobody_can_answer_any_more_leaves_the_list(
    log: foldlog.Store, how: str
) -> None:
    saver = FoldlogSaver(log)
    runs = graph(saver, book=asks("Book it?"))
    await runs.ainvoke({"said": []}, TRIP)
    assert len(await log.waiting()) == 1
    match how:
        case "update":
            await runs.aupdate_state(TRIP, {"said": ["by hand"]}, as_node="book")
        case "delete":
            await saver.adelete_thread("trip")
        case "erase":
            await log.erase_session("trip")
    assert await log.waiting() == []


async def test_a_run_that_does_not_hold_its_thread_lists_and_answers_nothing(
    log: foldlog.Store,
) -> None:
    saver = FoldlogSaver(log)
    runs = graph(saver, book=asks("Book it?"))
    await runs.ainvoke({"said": []}, TRIP)
    held, done = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with saver.hold("trip"):
            held.set()
            await done.wait()

    holding = asyncio.create_task(hold())
    await held.wait()
    with pytest.raises(ThreadHeld):
        await runs.ainvoke(Command(resume="yes"), TRIP)
    assert await asked(log) == ["Book it?"]
    done.set()
    await holding


async def test_an_encrypted_question_is_listed_without_its_words(log: foldlog.Store) -> None:
    saver = FoldlogSaver(log, serde=EncryptedSerializer(Cipher()))
    await graph(saver, book=asks("Secret?")).ainvoke({"said": []}, TRIP)
    [waits] = await log.waiting()
    assert "Secret?" not in repr(waits)


def test_a_sync_graph_lists_what_it_asks(tmp_path: Path) -> None:
    with foldlog.blocking.connect(path=tmp_path) as store:
        runs = graph(FoldlogSaver.from_store(store), book=asks("Book it?"))
        runs.invoke({"said": []}, TRIP)
        [waits] = store.waiting()
        assert question(waits) == "Book it?"
        runs.invoke(Command(resume="yes"), TRIP)
        assert store.waiting() == []
