"""Steps, on every backend: on record before and after their effect, and done once."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass

import pytest

import foldlog
from foldlog.errors import Misuse
from foldlog.integrations.rh_agents import (
    EventType,
    Execution,
    ExecutionEvent,
    StateBackend,
    StateStatus,
)
from tests.conftest import OpenStore
from tests.integrations.rh_agents.build import event, snapshot
from tests.integrations.rh_agents.running import Steps, history, loaded
from tests.support.stores import appended


async def test_a_step_is_done_once_and_its_result_is_on_record(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    result = {"flights": [1, (2, b"x")]}
    async with StateBackend(store).execution("s") as run:
        assert await run.step("search", steps.giving("search", result)) == result
    async with StateBackend(await reopen()).execution("s") as resumed:
        assert resumed.should_skip_event("search")
        assert resumed.has_completed_event("search")
        assert await resumed.get_event_result("search") == result
        assert await resumed.step("search", steps.giving("later", None)) == result
        assert not resumed.should_skip_event("book")
        assert await resumed.get_event_result("book") is None
        await resumed.step("book", steps.giving("book", "ok"))
    assert steps.called == ["search", "book"]
    found = await loaded(store, "s")
    assert found.status is StateStatus.COMPLETED
    assert history(found) == [("search", "completed"), ("book", "completed")]
    assert found.execution_state["history"]["events"][0]["result"] == result


async def test_a_step_is_on_record_as_intended_before_its_effect(store: foldlog.Store) -> None:
    async def look() -> list[tuple[str, str]]:
        return history(await loaded(store, "s"))

    async with StateBackend(store).execution("s") as run:
        assert await run.step("look", look) == [("look", "started")]


async def test_a_step_that_failed_is_done_again(store: foldlog.Store, steps: Steps) -> None:
    async def sold_out() -> None:
        async with StateBackend(store).execution("s") as run:
            await run.step("search", steps.giving("search", 1))
            await run.step("book", steps.raising("book", ValueError("sold out")))

    with pytest.raises(ValueError, match="sold out"):
        await sold_out()
    failed = await loaded(store, "s")
    assert failed.status is StateStatus.FAILED
    assert history(failed) == [("search", "completed"), ("book", "failed")]
    assert failed.execution_state["history"]["events"][1]["error"] == "ValueError"
    assert failed.execution_state["history"]["events"][1]["message"] == "sold out"

    async with StateBackend(store).execution("s") as run:
        await run.step("search", steps.giving("search", 1))
        assert await run.step("book", steps.giving("book again", 2)) == 2
    assert steps.called == ["search", "book", "book again"]
    retried = await loaded(store, "s")
    assert retried.status is StateStatus.COMPLETED
    assert retried.execution_state["history"]["events"][1]["attempt"] == 2


async def test_steps_take_arguments_and_run_side_by_side(store: foldlog.Store) -> None:
    meeting = asyncio.Barrier(4)

    async def double(number: int, of: str) -> str:
        await meeting.wait()
        return f"{of}{number * 2}"

    async with StateBackend(store).execution("s") as run:
        given = await asyncio.gather(
            *(run.step(f"double::{n}", double, n, "x", event_type=EventType.TOOL) for n in range(4))
        )
    assert given == ["x0", "x2", "x4", "x6"]
    found = await loaded(store, "s")
    assert sorted(history(found)) == [(f"double::{n}", "completed") for n in range(4)]
    assert found.execution_state["history"]["events"][0]["event_type"] == "tool"


async def test_an_address_names_one_step_at_a_time(store: foldlog.Store) -> None:
    begun, end = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        await end.wait()

    async with StateBackend(store).execution("s") as run:
        first = asyncio.create_task(run.step("a", slow))
        await begun.wait()
        with pytest.raises(Misuse, match="under way"):
            await run.step("a", slow)
        end.set()
        await first
    with pytest.raises(foldlog.InvalidId):
        await run.step("", slow)


async def test_a_second_step_of_an_address_is_not_given_the_result_of_the_first(
    store: foldlog.Store, steps: Steps
) -> None:
    for _ in range(2):  # done, and replayed
        async with StateBackend(store).execution("s") as run:
            assert await run.step("search", steps.giving("search", 1)) == 1
            with pytest.raises(Misuse, match="a different name"):
                await run.step("search", steps.giving("another", 2))
            with pytest.raises(Misuse, match="a different name"):
                await run.ask("search")
            assert await run.get_event_result("search") == 1
    assert steps.called == ["search"]


async def test_a_step_that_failed_is_tried_again_with_all_that_it_consists_of(
    store: foldlog.Store, steps: Steps
) -> None:
    async def agent(run: Execution, *, fails: bool) -> str:
        found = await run.step("agent::search", steps.giving("search", "found"))
        if fails:
            raise ConnectionError
        return f"{found} twice"

    async with StateBackend(store).execution("s") as run:
        await run.step("before", steps.giving("before", 1))
        with pytest.raises(ConnectionError):
            await run.step("agent", agent, run, fails=True)
        assert await run.step("agent", agent, run, fails=False) == "found twice"
        for address in ("before", "agent", "agent::search"):
            with pytest.raises(Misuse, match="a different name"):
                await run.step(address, steps.giving("again", 1))
    assert steps.called == ["before", "search"]


async def test_a_step_takes_the_arguments_of_a_tool(store: foldlog.Store) -> None:
    async def tool(q: str, /, *, address: str, limit: int = 1, artifact: str = "") -> list[object]:
        return [q, address, limit, artifact]

    async with StateBackend(store).execution("s") as run:
        given = await run.step("tool::1", tool, "boats", address="Oslo", limit=3)
        assert given == ["boats", "Oslo", 3, ""]
        bound = functools.partial(tool, "boats", artifact="map")
        assert await run.step("tool::2", bound, address="Oslo") == ["boats", "Oslo", 1, "map"]


async def test_an_execution_is_awaited_and_closed(store: foldlog.Store) -> None:
    run = await StateBackend(store).execution("s")
    run.storage["n"] = 1
    assert (await loaded(store, "s")).status is StateStatus.RUNNING
    await run.close()
    found = await loaded(store, "s")
    assert found.status is StateStatus.COMPLETED
    assert found.execution_state["storage"]["data"] == {"n": 1}
    with pytest.raises(Misuse, match="async with"):
        await run.close()
    async with await StateBackend(store).execution("s") as run:
        with pytest.raises(Misuse, match="entered once"):
            await run


async def test_an_execution_is_entered_once(store: foldlog.Store) -> None:
    run = StateBackend(store).execution("s")
    async with run:
        pass
    with pytest.raises(Misuse):
        await run.__aenter__()


async def test_a_state_with_a_history_of_its_own_is_left_alone(store: foldlog.Store) -> None:
    await StateBackend(store).save_state(snapshot("theirs", event("a")))
    with pytest.raises(Misuse):
        await StateBackend(store).execution("theirs").__aenter__()
    assert await loaded(store, "theirs") == snapshot("theirs", event("a"))


async def test_an_execution_is_used_within_its_block(store: foldlog.Store, steps: Steps) -> None:
    """Before, nobody could be kept from writing beside it."""
    await StateBackend(store).save_state(snapshot("s"))
    before = await appended(store)
    run = StateBackend(store).execution("s")
    for use in (
        lambda: run.step("a", steps.giving("a", 1)),
        lambda: run.ask("a"),
        lambda: run.save_checkpoint(),
        lambda: run.put_artifact("a", b"x"),
    ):
        with pytest.raises(Misuse, match="async with"):
            await use()
    assert await appended(store) == before
    async with run:
        pass
    with pytest.raises(Misuse, match="async with"):
        await run.step("a", steps.giving("a", 1))
    assert steps.called == []


async def test_a_bus_that_fails_before_a_step_leaves_it_to_be_done(
    store: foldlog.Store, steps: Steps
) -> None:
    class Broken:
        def publish(self, told: ExecutionEvent) -> None:
            raise OSError("no bus")

    with pytest.raises(OSError, match="no bus"):
        async with StateBackend(store).execution("s", event_bus=Broken()) as run:
            await run.step("a", steps.giving("a", 1))
    assert history(await loaded(store, "s")) == [("a", "failed")]
    async with StateBackend(store).execution("s") as run:
        assert await run.step("a", steps.giving("a", 1)) == 1
    assert steps.called == ["a"]


async def test_what_is_no_function_is_refused_with_what_to_do(store: foldlog.Store) -> None:
    async with StateBackend(store).execution("s") as run:
        coroutine = async_seven()
        with pytest.raises(Misuse, match="takes the function and its"):
            await run.step("called", coroutine)  # type: ignore[call-overload]
        coroutine.close()
        assert await run.step("made", lambda: async_seven()) == 7


async def test_a_plain_function_is_a_step_as_an_async_one_is(store: foldlog.Store) -> None:
    booked: list[str] = []

    def book(flight: str) -> Booking:
        booked.append(flight)
        if len(booked) == 1:
            raise ConnectionError("the airline does not answer")
        return Booking(flight)

    async def attempt() -> Booking:
        async with StateBackend(store).execution("s") as run:
            return await run.step("book", book, "SK 4035")

    with pytest.raises(ConnectionError):
        await attempt()
    assert [await attempt(), await attempt()] == [Booking("SK 4035")] * 2
    assert booked == ["SK 4035"] * 2
    async with StateBackend(store).execution("t") as run:
        assert await run.step("in a thread", asyncio.to_thread, len, "Oslo") == 4


@dataclass
class Booking:
    flight: str


async def async_seven() -> int:
    return 7
