"""What belongs to a session beside its own records goes with it, and can be deleted by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import pydantic
import pytest

import foldlog
from foldlog import kinds
from foldlog.agents import ShareRefused
from foldlog.envelope import draft
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append, Stored
from foldlog.scoped import Scope
from foldlog.sessions import ConversationTurn, ShortTermMemoryConfig
from foldlog.subjects import Namespace, Subject
from foldlog.telemetry.stores import jetstream
from foldlog_projections.scoped.scoped import OWN
from tests.conftest import OpenStore
from tests.support.build import binding, update
from tests.support.in_memory_first import in_memory_first

MEMORY = "acme:ann:trip"
AGENT = Scope.agent("work", "writer")


class Noted(msgspec.Struct, frozen=True):
    text: str


notes = foldlog.Kind("notes", keys=("name",), records={"note.saved": Noted}, fold=foldlog.every)


def _put(state: dict[str, bool], noted: Noted, _: object) -> dict[str, bool]:
    return {**state, noted.text: True}


shelves = foldlog.Kind(
    "shelves",
    keys=("name",),
    records={"shelf.saved": Noted},
    fold=foldlog.Fold(dict, _put, state=dict[str, bool]),
    owns=lambda state: [("notes", (name,)) for name in state],
)
"""A view of it names notes."""


async def fill(store: foldlog.Store) -> None:
    """Puts something of every kind that may belong to a session into session `trip`."""
    await store.save_memory_state(MEMORY, {"seat": "12A"})
    await store.save_planner_state("token", {"step": 1}, session_id="trip")
    await store.save_remote_binding(binding(trace_id="far", task_id="t"), session_id="trip")


class Draft(pydantic.BaseModel):
    text: str = ""


async def fill_facades(store: foldlog.Store) -> None:
    """As `fill`, by the facades."""
    async with store.run("run", session_id="trip") as run:
        await run.step("plan", plan)
    manager = store.agents.repository.create_manager(Draft, session_id="trip")
    async with manager.turn("writer/1") as turn:
        turn.update("draft", Draft(text="Once"))
        turn.share("draft")
    await store.scoped.write(AGENT, "goal", "rest", session_id="trip")
    await store.scoped.write(AGENT, "long", "x" * 300_000, session_id="trip")
    await store.scoped.write_many(AGENT, {"many": 1}, session_id="trip")
    await store.scoped.write(AGENT, "other", "stays")


async def plan() -> str:
    return "walk"


async def facade_contents(store: foldlog.Store) -> dict[str, Any]:
    found = {
        "steps": (await store.view(kinds.runs("trip", "run"), consistency="strong")).steps,
        "scopes": await store.agents.scopes(),
        "draft": await store.agents.get_agent_state("writer/1", "draft", Draft),
        "keys": await store.scoped.list(AGENT, consistency="strong"),
        "goal": await store.scoped.read(AGENT, "goal", consistency="strong"),
        "history": await store.scoped.history(AGENT, "long"),
        "search": await store.scoped.search(AGENT, "rest", 5),
    }
    return {name: value for name, value in found.items() if value}


async def contents(store: foldlog.Store) -> list[Any]:
    views = [kinds.memory(MEMORY), kinds.pauses("token"), kinds.bindings("far")]
    memory, pause, bindings = await store.views(views, consistency="strong")
    return [each for each in (memory, pause.waiting, *bindings) if each is not None]


@pytest.mark.parametrize("erases", [False, True], ids=["clear", "erase"])
async def test_what_belongs_to_a_session_goes_with_it(
    store: foldlog.Store, reopen: OpenStore, erases: bool
) -> None:
    await fill(store)
    await store.save_memory_state("acme:bob:other", {"seat": "1C"})
    await store.save_memory_state("profile", {"name": "Ann"})
    assert len(await contents(store)) == 3
    if erases:
        erased = await (await reopen()).erase_session("trip")
        assert erased.readable == ()
        assert erased.removed == {"bindings": 1, "belongings": 3, "memory": 1, "pauses": 1}
    else:
        await (await reopen()).clear_session("trip")
    for reader in (store, await reopen()):
        assert await contents(reader) == []
        assert await reader.load_memory_state(MEMORY, consistency="strong") is None
        assert await reader.load_memory_state("acme:bob:other") == {"seat": "1C"}
        assert await reader.load_memory_state("profile") == {"name": "Ann"}
        assert await reader.sessions() == ["other"]


@pytest.mark.parametrize("erases", [False, True], ids=["clear", "erase"])
async def test_what_the_facades_keep_for_a_session_goes_with_it(
    store: foldlog.Store, reopen: OpenStore, erases: bool
) -> None:
    await fill_facades(store)
    assert len(await facade_contents(store)) == 7
    other = await reopen()
    if erases:
        erased = await other.erase_session("trip")
        assert erased.readable == ()
        assert {"agentstates", "runs", "scoped"} <= erased.removed.keys()
    else:
        await other.clear_session("trip")
    for reader in (other, store, await reopen()):
        assert await facade_contents(reader) == {"keys": ["other"]}
    assert await store.scoped.read(AGENT, "other") == "stays"
    await fill_facades(store)
    assert len(await facade_contents(store)) == 7


async def test_each_facade_deletes_what_it_keeps(store: foldlog.Store, reopen: OpenStore) -> None:
    await fill_facades(store)
    other = await reopen()
    await other.agents.erase("writer/1")
    await other.scoped.erase(AGENT, "goal")
    for reader in (other, store):
        left = await facade_contents(reader)
        assert left.keys() == {"steps", "keys", "history"}
        assert left["keys"] == ["long", "many", "other"]
        assert await reader.scoped.history(AGENT, "goal") == []


async def test_a_token_to_what_was_deleted_opens_nothing_again(store: foldlog.Store) -> None:
    async with store.agents.turn("writer/1") as turn:
        turn.update("draft", Draft(text="first"))
        token = turn.share("draft")
    await store.agents.erase("writer/1")
    async with store.agents.turn("writer/1") as turn:
        turn.update("draft", Draft(text="second"))
    with pytest.raises(ShareRefused):
        await store.agents.get_agent_state("reader/1", token, Draft)


async def test_a_sessions_memory_deletes_itself(store: foldlog.Store, reopen: OpenStore) -> None:
    config = ShortTermMemoryConfig(strategy="truncation")
    async with store.session("trip") as session:
        memory = await session.memory(config, key=MEMORY)
        await memory.add_turn(ConversationTurn("hello", "hi", ts=1.0))
        assert await (await reopen()).load_memory_state(MEMORY) is not None
        await memory.erase()
        assert memory.state.turns == ()
        assert await (await reopen()).load_memory_state(MEMORY) is None
        await memory.add_turn(ConversationTurn("hello", "hi", ts=1.0))
    assert await (await reopen()).load_memory_state(MEMORY) is not None


async def test_a_session_that_goes_on_after_it_was_erased_is_erased_again(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    """The writer had the session's list in memory, and another process clears it."""
    other = await reopen()
    for seat in ("12A", "12B", "12C"):
        await store.save_memory_state(MEMORY, {"seat": seat})
        await other.erase_session("trip")
        assert await other.load_memory_state(MEMORY, consistency="strong") is None
        assert await store.load_memory_state(MEMORY, consistency="strong") is None


async def test_later_saves_append_nothing_but_themselves(store: foldlog.Store) -> None:
    for number in range(3):
        await store.save_memory_state(MEMORY, {"n": number})
    assert len(await store.items(kinds.memory(MEMORY))) == 3
    assert len(await store.items(kinds.belongings("trip"))) == 1


async def test_a_sessions_list_is_stored_before_a_view_on_another_shard() -> None:
    class Log(MemoryLog):
        families: ClassVar[list[set[str]]] = []

        async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
            self.families.append({each.subject.family for each in appends})
            return await super().append(appends, atomic=atomic)

    store = foldlog.memory_store(log=Log(Namespace(shards=4)))
    for number in range(4):
        await store.save_memory_state(f"a:b:s{number}", {"n": number})
    assert [{"belongings"}, {"memory"}] == Log.families[:2]
    assert {"belongings", "memory"} in Log.families, "on one shard they go together"


@pytest.mark.parametrize(
    ("key", "session"),
    [
        ("a:b:c", "c"),
        ("a:b:c%3Ad%25", "c:d%"),
        ("a:b:%5F", "_"),
        ("a:b:_", None),
        ("a:b:", None),
        ("user:c", None),
        ("c", None),
    ],
)
async def test_a_memory_is_the_sessions_that_its_key_ends_in(
    store: foldlog.Store, key: str, session: str | None
) -> None:
    await store.save_memory_state(key, {"n": 1})
    assert await store.sessions() == ([] if session is None else [session])


async def test_a_failed_block_saves_nothing_that_belongs(store: foldlog.Store) -> None:
    async def fail() -> None:
        async with store.atomic():
            await store.save_memory_state(MEMORY, {"n": 1})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail()
    assert await store.load_memory_state(MEMORY, consistency="strong") is None
    async with store.atomic():
        await store.save_memory_state(MEMORY, {"n": 2})
        await store.save_memory_state(MEMORY, {"n": 3})
    await store.clear_session("trip")
    assert await store.load_memory_state(MEMORY, consistency="strong") is None


@pytest.mark.parametrize("shards", [4])
async def test_a_block_may_save_memory_whose_session_lives_on_another_shard(
    reopen: OpenStore, shards: int
) -> None:
    store = await reopen(shards=shards)
    for number in range(4):
        async with store.atomic():
            await store.save_memory_state(f"a:b:s{number}", {"n": number})
        await store.clear_session(f"s{number}")
        assert await store.load_memory_state(f"a:b:s{number}", consistency="strong") is None


async def test_a_kind_of_ones_own_may_belong_to_a_session(reopen: OpenStore) -> None:
    store = await reopen(kinds=[notes])
    await store.belong("trip", notes("list"))
    await store.append(notes("list"), Noted("passport"))
    without = await reopen()  # as the command line, which does not know the kind
    assert (await without.erase_session("trip")).removed == {"belongings": 1, "notes": 1}
    assert await store.view(notes("list"), consistency="strong") == []


@pytest.mark.parametrize("shards", [1, 4])
async def test_what_a_view_names_that_is_named_itself_goes_too(
    reopen: OpenStore, shards: int
) -> None:
    store = await reopen(kinds=[notes, shelves], shards=shards)
    names = [f"n{number}" for number in range(6)]
    for name in names:
        await store.append(notes(name), Noted("passport"))
        await store.append(shelves(f"of {name}"), Noted(name))
        await store.belong("trip", shelves(f"of {name}"))
    await store.clear_session("trip")
    for name in names:
        assert await store.view(notes(name), consistency="strong") == []
        assert await store.view(shelves(f"of {name}"), consistency="strong") == {}


# --- deleting one view --------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(3))
async def test_each_can_be_deleted_by_itself(
    store: foldlog.Store, reopen: OpenStore, number: int
) -> None:
    await fill(store)
    key = [kinds.memory(MEMORY), kinds.pauses("token"), kinds.bindings("far")][number]
    await (await reopen()).erase(key)
    assert len(await contents(store)) == 2
    await fill(store)  # also a repetition counts
    assert len(await contents(store)) == 3


async def test_a_session_that_is_forked_keeps_its_views(store: foldlog.Store) -> None:
    await store.save_update(update("u", "trip"))
    await store.fork("trip")
    with pytest.raises(foldlog.SessionHasForks):
        await store.erase(kinds.updates("trip"))
    assert len(await store.list_updates("trip", consistency="strong")) == 1


async def test_what_has_no_records_cannot_be_deleted(reopen: OpenStore) -> None:
    count = foldlog.Kind("counted", of=kinds.updates, fold=foldlog.Fold(int, lambda n, *_: n + 1))
    store = await reopen(kinds=[count])
    with pytest.raises(foldlog.PayloadError, match="erase updates"):
        await store.erase(count("trip"))


# --- what cannot be read ------------------------------------------------------------------------

FAMILIES = (
    *("updates", "tasks", "session", "traces", "belongings", "lineage", "artifacts"),
    *("memory", "events", "links", "scoped"),
)


async def damage(store: foldlog.Store, subject: Subject, *, whole: bool) -> None:
    """Store a record whose envelope no fold takes, or a message that is no record at all."""
    if not whole:
        await store._core.log.append([Append(subject, (draft("no.such", b"\xc1", id="damage"),))])
        return
    log: Any = jetstream(store) or store._core.log
    if isinstance(log, MemoryLog):
        log._heads[subject.shard] += 1
        stored = Stored(subject.name, log._heads[subject.shard], "2026-01-01T00:00:00Z", b"garbage")
        log._stored[subject].append(stored)
    else:
        await log.connection.request(subject.name, b"garbage", timeout=5)


whole = pytest.mark.parametrize("whole", [False, True], ids=["envelope", "message"])


@whole
@pytest.mark.parametrize("family", FAMILIES)
@in_memory_first
async def test_what_cannot_be_read_stops_neither_erasing_nor_listing(
    store: foldlog.Store, reopen: OpenStore, family: str, whole: bool
) -> None:
    await check_damage(store, reopen, family, whole=whole)


@whole
async def test_nor_where_much_cannot_be_read(
    store: foldlog.Store, reopen: OpenStore, whole: bool
) -> None:
    await check_damage(store, reopen, *FAMILIES, whole=whole)


async def check_damage(
    store: foldlog.Store, reopen: OpenStore, *families: str, whole: bool
) -> None:
    """A session with damage in these families is listed, and goes."""
    await fill(store)
    await store.save_update(update("u", "trip"))
    await store.save_event(foldlog.StoredEvent("session:trip", 1.0, "x", None, None, {}))
    await store.scoped.write(Scope.session("trip"), "k", 1)
    keys = {
        "memory": (MEMORY,),
        "events": ("session:trip",),
        "links": ("session:trip", OWN),
        "scoped": ("session:trip", "k"),
    }
    for family in families:
        name = "scoped" if family == "links" else family
        await damage(store, store._core.subject(name, *keys.get(family, ("trip",))), whole=whole)
    cold = await reopen()
    assert await cold.sessions() == ["trip"]
    erased = await cold.erase_session("trip")
    assert erased.readable == ()
    after = await reopen()
    assert await contents(after) == []
    assert await after.list_updates("trip", consistency="strong") == []
    assert await after.sessions() == []
    await after.save_update(update("v", "trip"))
    assert [each.update_id for each in await after.list_updates("trip")] == ["v"]
    await after.clear_session("trip")
