"""What FoldlogSaver adds to the conformance suite: graphs, threads, serialisers and holds."""

from __future__ import annotations

import asyncio
import threading
import time
from operator import add
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph import START, StateGraph

import foldlog
from foldlog.errors import ConfigurationError
from foldlog.integrations.langgraph import CheckpointGone, FoldlogSaver, ThreadHeld, WouldBlock
from tests.integrations.langgraph.cipher import Cipher

TRIP = {"configurable": {"thread_id": "trip", "checkpoint_ns": ""}}


class State(TypedDict):
    said: Annotated[list[str], add]


def builder() -> Any:
    return (
        StateGraph(State)
        .add_node("answer", lambda state: {"said": [f"answer {len(state['said'])}"]})
        .add_edge(START, "answer")
    )


async def test_a_graph_goes_on_in_another_process(tmp_path: Path) -> None:
    for said in ("one", "two"):
        async with FoldlogSaver.from_conn_string(tmp_path) as saver:
            graph = builder().compile(checkpointer=saver)
            state = await graph.ainvoke({"said": [said]}, TRIP)
    assert state["said"] == ["one", "answer 1", "two", "answer 3"]


def test_a_sync_graph_runs_on_any_thread(tmp_path: Path) -> None:
    with foldlog.blocking.connect(path=tmp_path) as store:
        graph = builder().compile(checkpointer=FoldlogSaver.from_store(store))
        runs = [
            threading.Thread(
                target=graph.invoke, args=({"said": ["x"]}, {"configurable": {"thread_id": name}})
            )
            for name in "abcd"
        ]
        for run in runs:
            run.start()
        for run in runs:
            run.join()
        assert store.sessions() == ["a", "b", "c", "d"]
        history = list(graph.get_state_history({"configurable": {"thread_id": "a"}}))
        assert [each.values.get("said") for each in history] == [["x", "answer 1"], ["x"], []]


async def test_a_sync_call_on_the_stores_own_loop_is_refused(log: foldlog.Store) -> None:
    saver = FoldlogSaver(log)
    with pytest.raises(WouldBlock):
        saver.get_tuple(TRIP)
    assert await asyncio.to_thread(saver.get_tuple, TRIP) is None


async def test_values_are_as_the_serialiser_makes_them(log: foldlog.Store) -> None:
    saver = FoldlogSaver(log, serde=EncryptedSerializer(Cipher()))
    graph = builder().compile(checkpointer=saver)
    await graph.ainvoke({"said": ["in the clear"]}, TRIP)
    rows = [item.record async for item in _items(log)]
    assert not any(b"in the clear" in repr(row).encode() for row in rows)
    assert (await graph.aget_state(TRIP)).values["said"] == ["in the clear", "answer 1"]


async def test_a_copy_with_another_allowlist_is_of_the_same_store(log: foldlog.Store) -> None:
    saver = FoldlogSaver(log, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    other = saver.with_allowlist([("my.module", "Thing")])
    assert other is not saver
    assert other.serde is not saver.serde
    config = await other.aput(TRIP, empty_checkpoint(), {}, {})
    assert (await saver.aget_tuple(TRIP)).config == config


async def test_a_thread_that_was_deleted_is_gone_for_the_run_that_goes_on(
    log: foldlog.Store,
) -> None:
    saver = FoldlogSaver(log)

    async def deleting(state: State) -> dict[str, list[str]]:
        await FoldlogSaver(log).adelete_thread("trip")
        return {"said": ["deleted"]}

    graph = StateGraph(State).add_node(deleting).add_edge(START, "deleting")
    with pytest.raises(CheckpointGone):
        await graph.compile(checkpointer=saver).ainvoke({"said": ["x"]}, TRIP, durability="sync")
    assert await saver.aget_tuple(TRIP) is None
    assert await log.sessions() == []


def test_a_sync_run_holds_its_thread(tmp_path: Path) -> None:
    with FoldlogSaver.from_conn_string(tmp_path) as saver:
        graph = builder().compile(checkpointer=saver)
        with saver.hold("trip", holder="me"):
            graph.invoke({"said": ["x"]}, TRIP)
            failed: list[BaseException] = []

            def other() -> None:
                try:
                    graph.invoke({"said": ["y"]}, TRIP, durability="sync")
                except ThreadHeld as error:
                    failed.append(error)

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            assert [str(error) for error in failed] == [
                "thread 'trip' is held by 'me'; nothing was changed"
            ]
        assert graph.invoke({"said": ["z"]}, TRIP)["said"] == ["x", "answer 1", "z", "answer 3"]


async def test_checkpoints_are_watched_as_they_are_made(log: foldlog.Store) -> None:
    saver = FoldlogSaver(log)
    graph = builder().compile(checkpointer=saver)
    seen: list[Any] = []

    async def watch() -> None:
        async for each in saver.watch("trip"):
            seen.append((each.metadata["step"], each.checkpoint["channel_values"].get("said")))
            if each.metadata["step"] == 4:
                return

    watching = asyncio.create_task(watch())
    await graph.ainvoke({"said": ["x"]}, TRIP)
    await graph.ainvoke({"said": ["y"]}, TRIP)
    await watching
    assert [step for step, _ in seen] == [-1, 0, 1, 2, 3, 4]
    assert seen[-1][1] == ["x", "answer 1", "y", "answer 3"]
    first, second = [each async for each in saver.alist(TRIP, limit=2)]
    after = saver.watch("trip", after=second.checkpoint["id"])
    async for each in after:
        assert each.checkpoint["id"] == first.checkpoint["id"]
        break


async def _items(store: foldlog.Store) -> Any:
    for item in await store.items(foldlog.kinds.checkpoints("trip")):
        yield item


def test_a_hold_whose_caller_was_cancelled_is_let_go(tmp_path: Path) -> None:
    with FoldlogSaver.from_conn_string(tmp_path) as saver:

        async def enter() -> None:
            holding = saver.hold("trip", holder="ghost", lease=60.0)
            entering = asyncio.create_task(holding.__aenter__())
            await asyncio.sleep(0)
            time.sleep(0.5)  # noqa: ASYNC251  # meanwhile it is held, which nobody knows
            entering.cancel()
            with pytest.raises(asyncio.CancelledError):
                await entering
            await saver.aput(TRIP, empty_checkpoint(), {}, {})

        asyncio.run(enter())


def test_an_interrupted_hold_is_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with FoldlogSaver.from_conn_string(tmp_path) as saver:
        holding = saver.hold("trip", holder="ghost", lease=60.0)

        def interrupt() -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(holding, "_note", interrupt)
        with pytest.raises(KeyboardInterrupt), holding:
            pass
        saver.put(TRIP, empty_checkpoint(), {}, {})


@pytest.mark.parametrize("lease", [0, -1.0, float("nan"), float("inf"), "3", None, True])
async def test_a_lease_is_a_finite_number_of_seconds(log: foldlog.Store, lease: Any) -> None:
    with pytest.raises(ConfigurationError, match="a lease is"):
        FoldlogSaver(log).hold("trip", lease=lease)
