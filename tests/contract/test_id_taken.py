"""An id that is saved again with other content is an error, and with the same content a repeat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import pytest

import foldlog
from foldlog import Message
from tests.conftest import OpenStore
from tests.support.build import steering, update
from tests.support.degrading import failures_of


class Note(msgspec.Struct, frozen=True):
    id: str
    text: str


NOTES = foldlog.Kind(
    "notes",
    keys=("session_id",),
    owner="session",
    records={"note.saved": Note},
    fold=foldlog.every,
    id=foldlog.field_id("id"),
)
LAST_NOTE = foldlog.Kind("lastnote", of=NOTES, fold=foldlog.last)


class Saved(NamedTuple):
    """How something with an id is saved and read in session `session` or another one."""

    save: Callable[[foldlog.Store, str, str], Awaitable[None]]
    read: Callable[[foldlog.Store, str], Awaitable[Any]]


async def _read_updates(store: foldlog.Store, session: str) -> Any:
    found = await store.list_updates(session, consistency="strong")
    return [each.content for each in found]


async def _read_steering(store: foldlog.Store, session: str) -> Any:
    return [each.payload["text"] for each in await store.list_steering(session)]


async def _read_messages(store: foldlog.Store, session: str) -> Any:
    return [each.body for each in await store.list_messages(session, consistency="strong")]


async def _read_notes(store: foldlog.Store, session: str) -> Any:
    return [each.text for each in await store.view(NOTES(session), consistency="strong")]


SAVED = {
    "update": Saved(
        lambda store, session, text: store.save_update(update("id", session, content=text)),
        _read_updates,
    ),
    "steering": Saved(
        lambda store, session, text: store.save_steering(
            steering("id", session, payload={"text": text})
        ),
        _read_steering,
    ),
    "message": Saved(
        lambda store, session, text: store.append_messages(session, [Message("id", "plain", text)]),
        _read_messages,
    ),
    "note": Saved(
        lambda store, session, text: store.append(NOTES(session), Note("id", text)), _read_notes
    ),
}


@pytest.fixture(params=SAVED.values(), ids=SAVED.keys())
def saved(request: pytest.FixtureRequest) -> Saved:
    found: Saved = request.param
    return found


async def test_a_store_that_holds_the_view_refuses_other_content(
    reopen: OpenStore, saved: Saved
) -> None:
    store = await reopen(kinds=[NOTES])
    await saved.save(store, "session", "first")
    assert await saved.read(store, "session") == ["first"]
    with pytest.raises(foldlog.IdTaken) as raised:
        await saved.save(store, "session", "other")
    assert raised.value.id == "id"
    assert raised.value.stored != raised.value.given
    await saved.save(store, "session", "first")
    for reader in (store, await reopen(kinds=[NOTES])):
        assert await saved.read(reader, "session") == ["first"]


async def test_a_store_without_the_view_learns_of_it_by_its_next_read(
    reopen: OpenStore, saved: Saved
) -> None:
    store, other = await reopen(kinds=[NOTES]), await reopen(kinds=[NOTES])
    await saved.save(store, "session", "first")

    async def save_and_read() -> None:
        await saved.save(other, "session", "other")
        await saved.read(other, "session")

    with pytest.raises(foldlog.IdTaken) as raised:
        await save_and_read()
    assert raised.value.id == "id"
    for reader in (other, store, await reopen(kinds=[NOTES])):  # and once only
        assert await saved.read(reader, "session") == ["first"]


async def test_a_block_with_other_content_stores_nothing(reopen: OpenStore, saved: Saved) -> None:
    store = await reopen(kinds=[NOTES])
    await saved.save(store, "session", "first")
    assert await saved.read(store, "session") == ["first"]

    async def save_both() -> None:
        async with store.atomic():
            await store.save_memory_state("acme:ann:session", {"n": 1})
            await saved.save(store, "session", "other")

    with pytest.raises(foldlog.IdTaken):
        await save_both()
    for reader in (store, await reopen(kinds=[NOTES])):
        assert await reader.load_memory_state("acme:ann:session", consistency="strong") is None
        assert await saved.read(reader, "session") == ["first"]


async def test_a_fork_refuses_other_content_for_what_it_shares(
    reopen: OpenStore, saved: Saved
) -> None:
    store = await reopen(kinds=[NOTES])
    await saved.save(store, "session", "first")
    fork = await store.fork("session")
    assert await saved.read(store, fork) == ["first"]
    await saved.save(store, fork, "first")  # the same, though it names another session
    with pytest.raises(foldlog.IdTaken) as raised:
        await saved.save(store, fork, "other")
    assert raised.value.keys[0] == fork  # it reads there, though the origin holds it
    assert await saved.read(store, fork) == ["first"]
    await store.clear_session(fork)
    await saved.save(store, fork, "other")
    assert await saved.read(store, fork) == ["other"]
    assert await saved.read(store, "session") == ["first"]


async def test_a_repeat_from_another_trace_is_a_repeat(reopen: OpenStore) -> None:
    for store, trace in ((await reopen(), "one"), (await reopen(), "two")):
        for _ in range(2):  # the second one from memory
            await store.save_update(update("id", "session", trace_id=trace))
            await store.save_steering(steering("id", "session", trace_id=trace))
            assert len(await store.list_updates("session", consistency="strong")) == 1
            assert len(await store.list_steering("session", consistency="strong")) == 1


async def test_a_late_repeat_does_not_displace_the_last_record_of_another_kind(
    reopen: OpenStore,
) -> None:
    store, other = [await reopen(kinds=[NOTES, LAST_NOTE]) for _ in range(2)]
    await store.append(NOTES("session"), Note("one", "first"))
    assert (await store.view(LAST_NOTE("session"))).id == "one"
    await store.append(NOTES("session"), Note("two", "second"))
    await other.append(NOTES("session"), Note("one", "first"))
    await other.append(NOTES("session"), Note("one", "other"))
    assert (await store.view(LAST_NOTE("session"), consistency="strong")).id == "two"


async def test_each_of_three_writers_learns_that_its_id_was_taken(
    reopen: OpenStore, saved: Saved
) -> None:
    stores = [await reopen(kinds=[NOTES]) for _ in range(4)]
    for number, store in enumerate(stores):
        await saved.save(store, "session", f"from {number}")
    assert await saved.read(stores[0], "session") == ["from 0"]
    for store in stores[1:]:
        with pytest.raises(foldlog.IdTaken):
            await saved.read(store, "session")
        assert await saved.read(store, "session") == ["from 0"]


async def test_a_store_that_degrades_counts_lost_saves_and_reads_on(
    reopen: OpenStore, saved: Saved
) -> None:
    store, other = await reopen(kinds=[NOTES]), await reopen(kinds=[NOTES], on_error="degrade")
    for session in ("one", "two"):
        await saved.save(store, session, "first")
        await saved.save(other, session, "other")
        assert await saved.read(other, session) == ["first"]
    before = sum(failures_of(other).values())
    assert before == 2
    await saved.save(other, "two", "another")  # as any save that fails
    assert await saved.read(other, "two") == ["first"]
    assert sum(failures_of(other).values()) == before + 1
