"""`store.atomic()` around decisions: of kinds, sessions, agents and scoped state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

import foldlog
from foldlog import TaskStatus
from foldlog.errors import NotFound
from foldlog.log.port import Append
from foldlog.scoped import Scope, StoreOptions
from foldlog.scoped.errors import VersionConflict
from foldlog.sessions import (
    ConversationTurn,
    IllegalTransition,
    ShortTermMemoryConfig,
)
from tests.conftest import OpenStore
from tests.support.build import steering, update
from tests.support.stores import appended

PLACE = Scope.session("s")
Do = Callable[[foldlog.Store], Awaitable[Any]]


class Counted(msgspec.Struct, frozen=True):
    n: int


COUNTS = foldlog.Kind("counts", keys=("name",), records={"count.made": Counted}, fold=foldlog.every)


class Cart(BaseModel):
    total: int = 0


class Heard:
    """Keeps the telemetry that it is given."""

    def __init__(self) -> None:
        self.events: list[str] = []

    async def emit(self, event: Any) -> None:
        self.events.append(event.event_type)


async def of_session(store: foldlog.Store) -> None:
    async with store.session("s") as session:
        await session.update_context(llm_context={"n": 1})
        await session.spawn_task(task_id="task")
        await session.start_task("task")
        await session.report("task", "step", progress={"n": 1})
        await session.complete_task("task", 7)


async def of_agents(store: foldlog.Store) -> None:
    for total in (1, 2):
        async with store.agents.turn("shop/1") as turn:
            turn.update("cart", Cart(total=total + (await turn.get("cart", Cart)).total))


async def of_scoped(store: foldlog.Store) -> None:
    version = await store.scoped.write(PLACE, "key", 1)
    await store.scoped.write(PLACE, "key", 2, expected=version)
    await store.scoped.write(PLACE, "gone", 1)
    await store.scoped.delete(PLACE, "gone")


async def of_kind(store: foldlog.Store) -> None:
    for _ in range(2):
        await store.decide(COUNTS("a"), lambda counts: [Counted(len(counts))])


async def session_found(store: foldlog.Store) -> Any:
    return [(task.status.value, task.result) for task in await store.list_tasks("s")]


async def agents_found(store: foldlog.Store) -> Any:
    entry = await store.agents.get_agent_state("shop/1", "cart", Cart, consistency="strong")
    return entry and entry.state.total


async def scoped_found(store: foldlog.Store) -> Any:
    return [await store.scoped.read(PLACE, key, consistency="strong") for key in ("key", "gone")]


async def kind_found(store: foldlog.Store) -> Any:
    return [each.n for each in await store.view(COUNTS("a"), consistency="strong")]


FACADES: dict[str, tuple[Do, Do, Any, Any]] = {
    "sessions": (of_session, session_found, [], [("COMPLETE", 7)]),
    "agents": (of_agents, agents_found, None, 3),
    "scoped": (of_scoped, scoped_found, [None, None], [2, None]),
    "kinds": (of_kind, kind_found, [], [0, 1]),
}


@pytest.mark.parametrize("facade", FACADES)
async def test_what_a_facade_writes_in_a_block_goes_with_it(reopen: OpenStore, facade: str) -> None:
    write, look, nothing, everything = FACADES[facade]
    store, other = await reopen(kinds=[COUNTS]), await reopen(kinds=[COUNTS])

    async def fail() -> None:
        async with store.atomic():
            await write(store)
            await store.save_update(update("u", "s"))
            raise LookupError

    before = await appended(store)
    with pytest.raises(LookupError):
        await fail()
    assert await appended(store) == before
    assert await look(store) == await look(other) == nothing
    async with store.atomic():
        await write(store)
        await store.save_update(update("u", "s"))
        assert await look(other) == nothing
    assert await look(store) == await look(other) == everything
    updates = await other.list_updates("s", consistency="strong")
    assert updates[-1].update_id == "u"


async def test_a_block_that_decided_on_what_others_changed_is_a_conflict(
    reopen: OpenStore,
) -> None:
    store, other = await reopen(kinds=[COUNTS]), await reopen(kinds=[COUNTS])
    await of_kind(store)

    async def overtaken() -> None:
        async with store.atomic():
            await store.save_update(update("u", "s"))
            await store.decide(COUNTS("a"), lambda counts: [Counted(len(counts))])
            await other.append(COUNTS("a"), Counted(10))

    with pytest.raises(foldlog.AppendConflict) as raised:
        await overtaken()
    assert raised.value.actual is not None
    assert raised.value.actual > raised.value.expected > 0
    assert await kind_found(store) == [0, 1, 10]
    assert await store.list_updates("s", consistency="strong") == []


async def test_a_second_decision_sees_that_the_first_was_overtaken(reopen: OpenStore) -> None:
    store, other = await reopen(kinds=[COUNTS]), await reopen(kinds=[COUNTS])

    async def overtaken() -> None:
        async with store.atomic():
            await store.decide(COUNTS("a"), lambda counts: [Counted(len(counts))])
            await other.append(COUNTS("a"), Counted(10))
            await store.decide(COUNTS("a"), lambda counts: [Counted(len(counts))])
            raise AssertionError("the second decision was made")

    with pytest.raises(foldlog.AppendConflict):
        await overtaken()
    assert await kind_found(store) == [10]


async def test_a_write_in_flight_that_comes_to_nothing_is_no_conflict(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await reopen(kinds=[COUNTS])
    original, refused = store._core.log.append, list[str]()

    async def append(appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        if not refused:
            refused.append(appends[0].subject.name)
            raise foldlog.AppendConflict(appends[0].subject.name, 0, None)
        return await original(appends, atomic=atomic)

    monkeypatch.setattr(store._core.log, "append", append)
    async with store.atomic():
        await of_kind(store)
    assert (len(refused), await kind_found(store)) == (1, [0, 1])


async def test_a_decision_sees_what_the_block_saved(reopen: OpenStore) -> None:
    store = await reopen(kinds=[COUNTS])
    await store.append(COUNTS("a"), *(Counted(n) for n in range(200)))
    async with store.atomic():
        await store.append(COUNTS("a"), Counted(7))
        await store.decide(COUNTS("a"), lambda counts: [Counted(len(counts) + counts[-1].n)])
        await store.save_steering(steering("e", "s"))
        async with store.session("s") as session:
            await session.spawn_task(task_id="task")
            assert not await session.steer(steering("e", "s"))
            with pytest.raises(IllegalTransition):
                await session.complete_task("task")
            assert [task.task_id for task in await session.list_tasks()] == ["task"]
    assert (await kind_found(store))[-2:] == [7, 208]


async def test_what_a_block_saves_with_a_time_to_live_lives(store: foldlog.Store) -> None:
    soon = StoreOptions(ttl=60_000)
    async with store.atomic():
        version = await store.scoped.write(PLACE, "key", 1, soon)
        await store.scoped.write(PLACE, "key", 2, expected=version)
        await store.scoped.write(PLACE, "gone", 1, soon)
        await store.scoped.delete(PLACE, "gone")
        await store.save_planner_state("token", {"step": 1})
        assert await store.load_planner_state("token") == {"step": 1}
    assert await store.scoped.read(PLACE, "key") == 2
    assert await store.scoped.list(PLACE) == ["key"]
    assert await store.load_planner_state("token") is None


async def test_after_a_block_that_failed_a_session_looks_again(store: foldlog.Store) -> None:
    sink = Heard()
    session = await store.session("s", telemetry=sink)

    async def fail() -> None:
        async with store.atomic():
            await session.spawn_task(task_id="task")
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    with pytest.raises(NotFound):
        session.get_task("task")
    assert session.state.tasks == []
    assert (await session.refresh()).tasks == []
    with pytest.raises(NotFound):
        await session.start_task("task")
    await session.telemetry.flush()
    assert sink.events == []
    async with store.atomic():
        await session.spawn_task(task_id="task")
        assert session.get_task("task").status is TaskStatus.PENDING
        await session.telemetry.flush()
        assert sink.events == []
    assert session.get_task("task").status is TaskStatus.PENDING
    await session.telemetry.flush()
    assert sink.events == ["task_spawned"]


async def test_a_memory_has_no_turn_of_a_block_that_failed(store: foldlog.Store) -> None:
    session = await store.session("s")
    memory = await session.memory(ShortTermMemoryConfig(strategy="truncation"), key="acme:ann:s")

    async def say(*texts: str) -> None:
        async with store.atomic():
            for text in texts:
                await memory.add_turn(ConversationTurn(text, "yes"))
            if "never" in texts:
                raise LookupError

    await say("first")
    with pytest.raises(LookupError):
        await say("was", "never")
    await say("second", "third")
    assert [turn.user_message for turn in memory.state.turns] == ["first", "second", "third"]
    assert await store.load_memory_state("acme:ann:s") == memory.state.to_dict()
    await session.close()


async def test_a_value_of_a_block_that_failed_is_nowhere(store: foldlog.Store) -> None:
    hot = StoreOptions(tier="hot")

    async def fail() -> None:
        async with store.atomic():
            await store.scoped.write(PLACE, "key", 1, hot)
            with pytest.raises(VersionConflict):
                await store.scoped.write(PLACE, "key", 2, expected=None)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await store.scoped.read(PLACE, "key") is None
    assert await store.scoped.list(PLACE) == []


async def test_a_run_is_refused_in_a_block(store: foldlog.Store) -> None:
    """What its steps do is not undone when the block fails."""
    before = await appended(store)
    async with store.atomic():
        with pytest.raises(foldlog.Misuse, match=r"inside store\.atomic\(\)"):
            async with store.run("run"):
                raise AssertionError("it began")
    assert await appended(store) == before


async def test_a_degrading_store_raises_for_a_block_with_a_decision(
    reopen: OpenStore,
) -> None:
    """Somebody was told of the decision; a save alone is dropped and counted."""
    store = await reopen(kinds=[COUNTS], on_error="degrade")
    other = await reopen(kinds=[COUNTS])

    async def overtaken() -> None:
        async with store.atomic():
            await store.decide(COUNTS("a"), lambda counts: [Counted(len(counts))])
            await other.append(COUNTS("a"), Counted(10))

    with pytest.raises(foldlog.AppendConflict):
        await overtaken()
    assert await kind_found(store) == [10]
