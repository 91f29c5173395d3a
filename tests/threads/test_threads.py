"""What a thread of checkpoints promises, without LangGraph."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

import foldlog
from foldlog.integrations.access import access_to
from foldlog.integrations.langgraph import CheckpointGone, FoldlogSaver, ThreadHeld
from foldlog.integrations.langgraph.fencing import Holding
from foldlog.log.memory import MemoryLog
from tests.redaction.leaks import Handed
from tests.threads.support import FORMS, ROOT, Place, checkpoint, outside, step, threads


async def test_a_growing_conversation_is_stored_once() -> None:
    log = Handed()
    async with foldlog.memory_store(log=log) as store:
        one, place, messages = threads(store), ROOT, list[str]()
        for number in range(1, 201):
            messages.append(f"message {number} says something of its own, and not too little of it")
            saved, versions = step(number, list(messages))
            place = await one.put(place, saved, {"step": number}, versions)
        held = sum(len(draft.payload) for draft in log.drafts)
        assert held < 200 * (len(messages[-1]) + 350)
        for number in (1, 77, 200):
            row = await one.get(Place("trip", "", f"{number:04}"))
            assert row is not None
            assert FORMS.value(row.values["messages"]) == messages[:number]


async def test_writes_come_before_their_checkpoint_and_the_first_one_stands() -> None:
    async with foldlog.memory_store() as store:
        one, place = threads(store), Place("trip", "", "1")
        await one.put_writes(place, [(0, "a", "early"), (-1, "error", 1)], "task", "b")
        await one.put_writes(place, [(0, "a", "late"), (-1, "error", 2)], "task", "b")
        await one.put_writes(place, [(1, "a", 3), (0, "a", 4)], "other", "a")
        assert await one.get(place) is None
        assert await one.rows(None, None, None, None) == []
        await one.put(ROOT, checkpoint("1"), {}, {})
        row = await one.get(place)
        assert row is not None
        assert [FORMS.write(each) for each in row.writes] == [
            *(("other", "a", 4), ("other", "a", 3)),
            *(("task", "error", 2), ("task", "a", "early")),
        ]


async def test_the_hook_sees_each_write_by_its_channel() -> None:
    def redact(saving: foldlog.Saving) -> dict[str, Any]:
        values = saving.values["values"]
        masked = {name: "***" if name == "a" else values[name] for name in values}
        return saving.values | {"values": masked}

    async with foldlog.memory_store(redact=redact) as store:
        one, place = threads(store), Place("trip", "", "1")
        writes = [(0, "a", "secret"), (1, "a#1", "plain"), (2, "a", "secret")]
        await one.put_writes(place, writes, "task", "")
        await one.put(ROOT, checkpoint("1"), {}, {})
        row = await one.get(place)
        assert row is not None
        found = [FORMS.write(each)[1:] for each in row.writes]
        assert found == [("a", "***"), ("a#1", "plain"), ("a", "***")]


async def test_pruning_leaves_what_delta_channels_are_put_together_from() -> None:
    async with foldlog.memory_store() as store:
        one, place = threads(store), ROOT
        for number in range(6):
            versions = {"log": number + 1}
            values = {"log": "snapshot"} if number == 2 else {}
            about = {"counters_since_delta_snapshot": {"log": (1, number)}} if number > 2 else {}
            saved = {**checkpoint(f"{number}", versions), "channel_values": values}
            place = await one.put(place, saved, about, versions)
            await one.put_writes(place, [(0, "log", number)], "task", "")
        before = await one.history(place, ["log"])
        assert before == {
            "log": {"seed": "snapshot", "writes": [("task", "log", n) for n in (2, 3, 4)]}
        }
        await one.prune("trip")
        rows = await one.rows({"configurable": {"thread_id": "trip"}}, None, None, None)
        assert [row.checkpoint.id for _, row in rows] == ["5", "4", "3", "2"]
        assert rows[-1][1].checkpoint.parent is None
        assert await one.history(place, ["log"]) == before


async def test_a_deleted_thread_is_not_brought_back_by_a_run_that_goes_on() -> None:
    log = MemoryLog(foldlog.memory_store().log.namespace)
    async with foldlog.memory_store(log=log) as a, foldlog.memory_store(log=log) as b:
        here, late = threads(a), threads(b)
        first = await late.put(ROOT, checkpoint("1", text="x"), {}, {"text": 1})
        await here.delete("trip")
        with pytest.raises(CheckpointGone, match="thread 'trip' was deleted"):
            await late.put(first, checkpoint("2", text="y"), {}, {"text": 1})
        with pytest.raises(CheckpointGone):
            await late.put_writes(first, [(0, "text", "z")], "task", "")
        under = {"parents": {"": "1"}}
        with pytest.raises(CheckpointGone):
            await late.put(Place("trip", "child:1", None), checkpoint("3"), under, {})
        assert await here.rows(None, None, None, None) == []
        assert await a.sessions() == []
        await here.put(ROOT, checkpoint("4"), {}, {})  # a new run begins the thread anew
        assert [row.checkpoint.id for _, row in await late.rows(None, None, None, None)] == ["4"]


async def test_a_thread_that_is_held_takes_what_its_holder_saves_alone() -> None:
    log = MemoryLog(foldlog.memory_store().log.namespace)
    async with foldlog.memory_store(log=log) as a, foldlog.memory_store(log=log) as b:
        here, there = threads(a), threads(b)
        async with Holding(access_to(a), "trip", "worker-1", 60.0, False):
            first = await here.put(ROOT, checkpoint("1"), {}, {})
            await here.put_writes(first, [(0, "text", "z")], "task", "")

            async def other() -> None:
                with pytest.raises(ThreadHeld, match="is held by 'worker-1'") as held:
                    await there.put(first, checkpoint("2"), {}, {})
                assert held.value.holder == "worker-1"
                with pytest.raises(ThreadHeld):
                    async with Holding(access_to(b), "trip", "worker-2", 60.0, False):
                        pass
                for call in (there.prune("trip"), there.copy("trip", "trip")):
                    with pytest.raises(ThreadHeld):
                        await call

            await here.put(first, checkpoint("3"), {}, {})
            await outside(other)
        await there.put(first, checkpoint("2"), {}, {})


async def test_a_run_whose_thread_was_taken_over_saves_no_more() -> None:
    async with foldlog.memory_store() as store:
        one = threads(store)
        async with Holding(access_to(store), "trip", "first", 60.0, False):
            first = await one.put(ROOT, checkpoint("1"), {}, {})

            async def other() -> None:
                async with Holding(access_to(store), "trip", "second", 60.0, True):
                    await one.put(first, checkpoint("2"), {}, {})

            await outside(other)
            with pytest.raises(ThreadHeld, match="is no longer held by this run"):
                await one.put(first, checkpoint("3"), {}, {})
        rows = await one.rows(None, None, None, None)
        assert [row.checkpoint.id for _, row in rows] == ["2", "1"]


async def test_a_fork_of_a_thread_that_is_held_is_free() -> None:
    async with foldlog.memory_store() as store:
        one = threads(store)
        async with Holding(access_to(store), "trip", "worker", 60.0, False):
            await one.put(ROOT, checkpoint("1"), {}, {})
            fork = await store.fork("trip")

            async def other() -> None:
                second = await one.put(Place(fork, "", "1"), checkpoint("2"), {}, {})
                await one.put_writes(second, [(0, "text", "z")], "task", "")
                async with Holding(access_to(store), fork, "of the fork", 60.0, False):
                    await one.put(second, checkpoint("3"), {}, {})

                    async def third() -> None:
                        with pytest.raises(ThreadHeld, match="'of the fork'"):
                            await one.put(second, checkpoint("4"), {}, {})

                    await outside(third)
                with pytest.raises(ThreadHeld, match="'worker'"):
                    await one.put(ROOT, checkpoint("5"), {}, {})

            await outside(other)


async def test_a_session_and_its_fork_have_their_checkpoints() -> None:
    async with foldlog.memory_store() as store:
        one = threads(store)
        first = await one.put(ROOT, checkpoint("1", text="x"), {}, {"text": 1})
        moment = await store.position()
        await one.put(first, checkpoint("2", text="y"), {}, {"text": 1})
        assert await store.sessions() == ["trip"]
        fork = await store.fork("trip", at=moment)
        row = await one.get(Place(fork, "", None))
        assert row is not None
        assert (row.checkpoint.id, FORMS.value(row.values["text"])) == ("1", "x")
        await one.put(Place(fork, "", "1"), checkpoint("3", text="z"), {}, {"text": 1})
        assert len(await one.rows({"configurable": {"thread_id": "trip"}}, None, None, None)) == 2
        past = threads(store.at(moment))
        assert [row.checkpoint.id for _, row in await past.rows(None, None, None, None)] == ["1"]
        with pytest.raises(foldlog.SessionHasForks):
            await one.delete("trip")
        assert (await store.erase_session(fork)).removed
        await one.delete("trip")
        assert await store.sessions() == []


@pytest.mark.skipif(find_spec("langgraph") is not None, reason="LangGraph is installed")
def test_without_langgraph_the_error_names_the_extra() -> None:
    with pytest.raises(foldlog.ConfigurationError, match=r"pip install 'foldlog\[langgraph\]'"):
        FoldlogSaver(foldlog.memory_store())
