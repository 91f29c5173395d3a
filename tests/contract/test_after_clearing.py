"""After a session was cleared or erased, whoever knows of it begins anew: what they save counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

import foldlog
from foldlog import Message, SteeringEventType
from foldlog.kind import Key
from tests.conftest import OpenStore
from tests.support.build import event, steering, update

Remove = Callable[[foldlog.Store, str], Awaitable[object]]


class Taken(msgspec.Struct, frozen=True):
    by: str


SEATS = foldlog.Kind(
    "seats",
    keys=("session_id",),
    owner="session",
    records={"seat.taken": Taken},
    fold=foldlog.every,
)
VOTES = foldlog.Kind(
    "votes",
    keys=("session_id",),
    owner="session",
    records={"vote.given": Taken},
    fold=foldlog.every,
    id=foldlog.content_digest,
)


async def clear(store: foldlog.Store, session_id: str) -> object:
    return await store.clear_session(session_id)


async def erase(store: foldlog.Store, session_id: str) -> object:
    return await store.erase_session(session_id)


@pytest.fixture(params=[clear, erase], ids=["clear", "erase"])
def remove(request: pytest.FixtureRequest) -> Remove:
    found: Remove = request.param
    return found


@pytest.mark.parametrize("kind", [SEATS, VOTES], ids=["fresh", "content"])
async def test_the_same_decision_wins_once_more(
    reopen: OpenStore, remove: Remove, kind: foldlog.Kind[list[Taken]]
) -> None:
    store, other = await reopen(kinds=[SEATS, VOTES]), await reopen(kinds=[SEATS, VOTES])
    key: Key[list[Taken]] = kind("session")

    async def decisions() -> list[int]:
        deciders = store, other, store
        return [
            len(await each.decide(key, lambda seats: None if seats else [Taken("ann")]))
            for each in deciders
        ]

    assert await decisions() == [1, 0, 0]
    for _ in range(2):
        await remove(store, "session")
        assert await decisions() == [1, 0, 0]
        for reader in (store, other, await reopen(kinds=[SEATS, VOTES])):
            assert await reader.view(key, consistency="strong") == [Taken("ann")]


async def test_an_earlier_id_takes_effect_with_any_content(
    store: foldlog.Store, reopen: OpenStore, remove: Remove
) -> None:
    await store.save_update(update("same", content="old"))
    await store.save_update(update("other", content="old"))
    await store.append_messages("session", [Message("1", "plain", "old")])
    await remove(store, "session")
    for _ in range(2):  # and then it is a repeat
        await store.save_update(update("same", content="old"))
        await store.save_update(update("other", content="new"))
        await store.append_messages("session", [Message("1", "plain", "new")])
    for reader in (store, await reopen()):
        found = await reader.list_updates("session", consistency="strong")
        assert [each.content for each in found] == ["old", "new"]
        said = await reader.list_messages("session", consistency="strong")
        assert [each.body for each in said] == ["new"]


async def test_an_emptied_conversation_is_expected_to_be_empty(
    store: foldlog.Store, reopen: OpenStore, remove: Remove
) -> None:
    await store.append_messages("session", [Message("1", "plain", "old")])
    await remove(store, "session")
    await store.append_messages("session", [Message("1", "plain", "old")], expected=0)
    for reader in (store, await reopen()):
        assert len(await reader.list_messages("session", consistency="strong")) == 1


async def test_the_same_memory_is_saved_once_more(
    store: foldlog.Store, reopen: OpenStore, remove: Remove
) -> None:
    key = "acme:ann:session"
    await store.save_memory_state(key, {"n": 1})
    await remove(store, "session")
    await store.save_memory_state(key, {"n": 1})
    for reader in (store, await reopen()):
        assert await reader.load_memory_state(key, consistency="strong") == {"n": 1}


async def test_the_same_event_is_saved_once_more(
    store: foldlog.Store, reopen: OpenStore, remove: Remove
) -> None:
    said = event("session:session")
    await store.save_event(said)
    await remove(store, "session")
    for _ in range(2):
        await store.save_event(said)
    for reader in (store, await reopen()):
        assert await reader.load_history("session:session", consistency="strong") == [said]


async def test_the_same_order_steers_once_more(store: foldlog.Store, remove: Remove) -> None:
    order = steering("e1", task_id="book", event_type=SteeringEventType.USER_MESSAGE)

    async def steered() -> list[bool]:
        async with store.session("session") as session:
            await session.spawn_task(task_id="book")
            await session.start_task("book")
            return [await session.steer(order), await session.steer(order)]

    assert await steered() == [True, False]
    await remove(store, "session")
    assert await steered() == [True, False]
    assert [each.event_id for each in await store.list_steering("session")] == ["e1"]


async def test_who_has_read_since_may_save_the_same(
    store: foldlog.Store, reopen: OpenStore, remove: Remove
) -> None:
    other = await reopen()
    await other.save_update(update("same"))
    await remove(store, "session")
    assert await other.list_updates("session", consistency="strong") == []
    await other.save_update(update("same"))
    for reader in (store, other, await reopen()):
        assert await reader.list_updates("session", consistency="strong") == [update("same")]


async def test_a_view_that_was_deleted_takes_the_same(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    key = foldlog.kinds.updates("session")
    await store.save_update(update("same", content="old"))
    await store.erase(key)
    for _ in range(2):
        await store.save_update(update("same", content="new"))
    for reader in (store, await reopen()):
        assert len(await reader.view(key, consistency="strong")) == 1
