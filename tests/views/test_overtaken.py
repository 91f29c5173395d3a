"""A save whose outcome was unknown reaches the log after a later one of its writer was acked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import pytest

import foldlog
from foldlog.envelope import Draft, draft
from foldlog.log.port import Append
from foldlog.scoped import Scope
from foldlog.subjects import Subject
from tests.conftest import OpenStore
from tests.support import build
from tests.support.pushed import all_is_pushed

SCOPE = Scope.workflow("w")


class Late:
    """A store whose next append ends unknown, and is handed to the log later."""

    def __init__(self, store: foldlog.Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = store
        self.held: list[tuple[Sequence[Append], bool]] = []
        self._log = store._core.log
        self._append = store._core.log.append
        self._monkeypatch = monkeypatch

    async def save(self, save: Awaitable[Any]) -> None:
        """Run a save, none of whose appends is stored yet."""

        async def hold(appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
            self.held.append((appends, atomic))
            raise foldlog.AppendUnknown(["?"], "the server froze")

        with self._monkeypatch.context() as patched:
            patched.setattr(self._log, "append", hold)
            with pytest.raises(foldlog.AppendUnknown):
                await save

    async def arrive(self) -> None:
        """The server hands what it held to the log."""
        for appends, atomic in self.held:
            await self._append(appends, atomic=atomic)


class Kind(NamedTuple):
    """How a state that replaces is saved and read, as a number."""

    save: Callable[[foldlog.Store, int], Awaitable[Any]]
    load: Callable[[foldlog.Store], Awaitable[int]]


async def load_memory(store: foldlog.Store) -> int:
    state = await store.load_memory_state("k")
    assert state is not None
    return int(state["n"])


async def load_task(store: foldlog.Store) -> int:
    [task] = await store.list_tasks("session")
    return task.priority


async def load_trajectory(store: foldlog.Store) -> int:
    found = await store.get_trajectory("trace", "session")
    assert found is not None
    return int(found.query)


async def load_binding(store: foldlog.Store) -> int:
    [binding] = await store.list_bindings(trace_id="trace")
    return int(binding.agent_url)


async def load_key(store: foldlog.Store) -> int:
    found = await store.scoped.read(SCOPE, "k")
    [revision] = [each for each in await store.scoped.history(SCOPE, "k") if each.value == found]
    assert revision.value == found
    return int(found or 0)


KINDS = {
    "memory": Kind(lambda store, n: store.save_memory_state("k", {"n": n}), load_memory),
    "tasks": Kind(lambda store, n: store.save_task(build.task(priority=n)), load_task),
    "trajectory": Kind(
        lambda store, n: store.save_trajectory("trace", "session", build.trajectory(str(n))),
        load_trajectory,
    ),
    "bindings": Kind(
        lambda store, n: store.save_remote_binding(build.binding(agent_url=str(n))), load_binding
    ),
    "scoped": Kind(lambda store, n: store.scoped.write(SCOPE, "k", n), load_key),
}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def late(store: foldlog.Store, monkeypatch: pytest.MonkeyPatch) -> Late:
    return Late(store, monkeypatch)


async def test_an_acked_save_never_gives_way_to_an_older_one_of_its_writer(
    late: Late, kind: Kind, reopen: OpenStore
) -> None:
    hot = await reopen()
    await kind.save(late.store, 0)
    for store in (late.store, hot):
        assert await kind.load(store) == 0
    await late.save(kind.save(late.store, 1))
    await kind.save(late.store, 2)
    acked = await late.store.position()
    await late.arrive()
    await all_is_pushed(late.store, hot)
    for store in (late.store, hot, await reopen()):
        assert await kind.load(store) == 2
        assert (await store.verify()).is_good
    assert await kind.load(late.store.at(acked)) == 2
    assert await kind.load(late.store.at(await late.store.position())) == 2
    assert (await late.store.rebuild()).differing == ()
    assert await kind.load(late.store) == 2


async def test_nor_where_others_have_saved_in_between(
    late: Late, kind: Kind, reopen: OpenStore
) -> None:
    other, hot = await reopen(), await reopen()
    await late.save(kind.save(late.store, 1))
    await kind.save(late.store, 2)
    await kind.save(other, 3)
    assert await kind.load(hot) == 3
    await late.arrive()
    await all_is_pushed(late.store, other, hot)
    for store in (late.store, other, hot, await reopen()):
        assert await kind.load(store) == 3
        assert (await store.verify()).is_good
    await kind.save(late.store, 4)
    await all_is_pushed(late.store, other, hot)
    for store in (late.store, other, hot, await reopen()):
        assert await kind.load(store) == 4


async def test_an_unknown_save_that_nothing_has_replaced_takes_effect(
    late: Late, kind: Kind, reopen: OpenStore
) -> None:
    await kind.save(late.store, 0)
    await late.save(kind.save(late.store, 1))
    await late.arrive()
    for store in (late.store, await reopen()):
        assert await kind.load(store) == 1
        assert (await store.verify()).is_good


async def test_an_ended_binding_does_not_come_back(late: Late, reopen: OpenStore) -> None:
    store = late.store
    await store.save_remote_binding(build.binding())
    await late.save(store.save_remote_binding(build.binding()))
    await store.mark_binding_terminal(trace_id="trace", context_id="ctx", task_id="task")
    await late.arrive()
    for each in (store, await reopen()):
        [binding] = await each.list_bindings(trace_id="trace")
        assert binding.is_terminal


async def test_a_pause_is_the_one_that_was_saved_last(late: Late, reopen: OpenStore) -> None:
    store = late.store
    await late.save(store.save_planner_state("token", {"n": 1}))
    await store.save_planner_state("token", {"n": 2})
    await late.arrive()
    assert await (await reopen()).load_planner_state("token") == {"n": 2}
    assert await store.load_planner_state("token") is None


async def test_a_block_counts_as_saved_when_it_ends(store: foldlog.Store) -> None:
    gate = asyncio.Event()

    async def meanwhile() -> None:
        await gate.wait()
        await store.save_memory_state("k", {"n": 2})

    task = asyncio.create_task(meanwhile())
    async with store.atomic():
        await store.save_memory_state("k", {"n": 1})
        gate.set()
        await task
    assert await load_memory(store) == 1


async def test_snapshots_remember_what_was_overtaken(
    late: Late, reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldlog.views.snapshots.DUE_ENVELOPES", 128)
    store = late.store
    await late.save(store.save_task(build.task(priority=1)))
    await store.save_task(build.task(priority=2))
    for n in range(300):
        await store.save_task(build.task(f"t{n}"))
    other = await reopen()
    await other.list_tasks("session")
    await other.close()
    await late.arrive()
    third = await reopen()
    assert (await third.list_tasks("session"))[0].priority == 2
    assert (await third.verify()).is_good


@pytest.mark.parametrize("where", [0, 1])
async def test_what_is_stored_twice_counts_where_it_stands_first(
    store: foldlog.Store, reopen: OpenStore, where: int
) -> None:
    """The same draft, by a second delivery."""
    stored: list[Append] = []
    append = store._core.log.append

    async def noted(appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        stored.extend(appends)
        return await append(appends, atomic=atomic)

    store._core.log.append = noted  # type: ignore[method-assign]
    for n in (1, 2):
        await store.save_memory_state("k", {"n": n})
    await append([stored[where]])
    await all_is_pushed(store)
    for each in (store, await reopen()):
        assert await load_memory(each) == 2
        assert (await each.verify()).is_good


async def test_what_no_writer_has_signed_is_known_by_its_id(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    hot = await reopen()
    await hot.load_memory_state("k")
    subject: Subject = store._core.log.namespace.subject("memory", "k")
    drafts = {id: saved(n, id) for n, id in enumerate("ab")}
    for id in "aba":
        await store._core.log.append([Append(subject, (drafts[id],))])
    await all_is_pushed(hot)
    for each in (store, hot, await reopen()):
        assert await load_memory(each) == 1
        assert (await each.verify()).is_good


def saved(n: int, id: str) -> Draft:
    return draft("memory.saved", msgspec.msgpack.encode({"state": {"n": n}}), id=id)
