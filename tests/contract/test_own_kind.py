"""A kind of the user's, with a large value and an entry in a list: one declaration says it all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import foldlog
from foldlog import Key
from foldlog.exporting import export, restore
from foldlog.store.records import LogRecord
from foldlog.words import Words
from tests.conftest import OpenStore


class Saved(msgspec.Struct, frozen=True):
    title: foldlog.Content[str]
    data: foldlog.Blob


class Listed(msgspec.Struct, frozen=True):
    name: str
    title: foldlog.Content[str]


class Unlisted(msgspec.Struct, frozen=True):
    name: str


def enter(titles: dict[str, str], record: Listed | Unlisted, envelope: object) -> dict[str, str]:
    if isinstance(record, Listed):
        titles[record.name] = record.title
    else:
        titles.pop(record.name, None)
    return titles


def take_off(keys: tuple[str, ...], titles: dict[str, str]) -> list[Unlisted]:
    _, name = keys
    return [Unlisted(name)] if name in titles else []


FOLDER = foldlog.Kind(
    "folder",
    keys=("session_id",),
    owner="session",
    records={"folder.listed": Listed, "folder.unlisted": Unlisted},
    fold=foldlog.Fold(dict, enter, state=dict[str, str], replaces="name"),
)
FILES = foldlog.Kind(
    "files",
    keys=("session_id", "name"),
    owner="session",
    records={"file.saved": Saved},
    fold=foldlog.last,
    listed=[foldlog.Listing(FOLDER, take_off, keys=lambda keys, state: keys[:1])],
    shown=foldlog.Shown(
        {"file.saved": "file {name} saved: {title}"}, titles={"file.saved": "{title}"}
    ),
)
KINDS: list[foldlog.Kind[Any]] = [FOLDER, FILES]
MAP, TICKET = b"map " * 100_000, b"ticket " * 100_000


async def save(store: foldlog.Store, session_id: str, name: str, data: bytes) -> None:
    key = FILES(session_id, name)
    blob = await store.blobs.put(key, data)
    async with store.atomic():
        await store.append(key, Saved(name.title(), blob))
        await store.append(FOLDER(session_id), Listed(name, name.title()))
    await store.blobs.keep(key, blob, data)


async def load(store: foldlog.Store, session_id: str, name: str) -> bytes | None:
    key = FILES(session_id, name)
    saved: Any = await store.view(key, consistency="strong")
    return None if saved is None else await store.blobs.read(key, saved.data)


async def folder(store: foldlog.Store, session_id: str) -> dict[str, str]:
    found: dict[str, str] = await store.view(FOLDER(session_id), consistency="strong")
    return found


async def large_values(store: foldlog.Store) -> int:
    return len(await store._core.backend.blobs.names())


@pytest.fixture
async def saved(reopen: OpenStore) -> foldlog.Store:
    """A store with two files of a session."""
    store = await reopen(kinds=KINDS)
    await save(store, "trip", "map", MAP)
    await save(store, "trip", "ticket", TICKET)
    return store


async def test_a_file_that_is_deleted_takes_its_bytes_and_its_entry_along(
    saved: foldlog.Store, reopen: OpenStore
) -> None:
    await saved.erase(FILES("trip", "map"))
    for store in (saved, await reopen(kinds=KINDS)):
        assert await folder(store, "trip") == {"ticket": "Ticket"}
        assert await load(store, "trip", "map") is None
        assert await load(store, "trip", "ticket") == TICKET
    assert await large_values(saved) == 1


async def test_all_files_go_together(saved: foldlog.Store) -> None:
    await saved.erase(FILES, "trip")
    assert await folder(saved, "trip") == {}
    assert await large_values(saved) == 0


async def test_a_clearing_and_an_erasure_take_everything(
    saved: foldlog.Store, reopen: OpenStore
) -> None:
    erased = await saved.erase_session("trip")
    assert (erased.blobs, set(erased.removed)) == (2, {"files", "folder"})
    assert await large_values(saved) == 0
    await save(saved, "trip", "map", MAP)  # what is saved afterwards counts
    assert await folder(saved, "trip") == {"map": "Map"}
    await saved.clear_session("trip")
    assert await large_values(saved) == 0
    for store in (saved, await reopen(kinds=KINDS)):
        assert await folder(store, "trip") == {}
        assert await load(store, "trip", "map") is None
        assert "trip" not in await store.sessions()


async def test_a_fork_shares_the_bytes_and_removes_only_its_own_view(
    saved: foldlog.Store, reopen: OpenStore
) -> None:
    fork = await saved.fork("trip")
    assert await large_values(saved) == 2
    assert await load(saved, fork, "map") == MAP
    await saved.erase(FILES(fork, "map"))
    await save(saved, fork, "ticket", MAP)
    for store in (saved, await reopen(kinds=KINDS)):
        assert await folder(store, fork) == {"ticket": "Ticket"}
        assert await load(store, fork, "map") is None
        assert await load(store, fork, "ticket") == MAP
        assert await folder(store, "trip") == {"map": "Map", "ticket": "Ticket"}
        assert await load(store, "trip", "ticket") == TICKET


async def test_an_export_has_the_records_and_the_bytes(
    saved: foldlog.Store, tmp_path: Path
) -> None:
    made = await export(saved, tmp_path / "trip.jsonl", session_id="trip")
    assert (made.records, made.blobs) == (len(await records(saved)), 2)
    async with foldlog.memory_store(kinds=KINDS) as copy:
        await restore(copy, tmp_path / "trip.jsonl")
        assert await folder(copy, "trip") == {"map": "Map", "ticket": "Ticket"}
        assert await load(copy, "trip", "map") == MAP


async def test_it_is_shown_in_the_words_that_it_declares(saved: foldlog.Store) -> None:
    key: Key[Any] = FILES("trip", "map")
    [item] = await saved.items(key)
    line = key.line(item)
    assert (line.what, line.text, line.group) == ("file map saved", "Map", "files")
    assert (str(line), key.title(item)) == ("file map saved: Map", "Map")
    [first, _] = await saved.items(FOLDER("trip"))
    assert str(FOLDER("trip").line(first)) == "folder listed: Map", "without words of its own"


def test_words_that_name_what_is_not_there_are_refused() -> None:
    wrong: list[dict[str, Words]] = [{"file.saved": "{size}"}, {"file.gone": "gone"}]
    for lines in wrong:
        with pytest.raises(foldlog.ConfigurationError, match=r"size|gone"):
            foldlog.Kind(
                "x",
                keys=("name",),
                records={"file.saved": Saved},
                fold=foldlog.last,
                shown=foldlog.Shown(lines),
            )


async def test_words_that_fail_cost_no_reader_the_record(reopen: OpenStore) -> None:
    notes: foldlog.Kind[Any] = foldlog.Kind(
        "notes",
        keys=("session_id",),
        owner="session",
        records={"note.saved": Listed},
        fold=foldlog.every,
        shown=foldlog.Shown({"note.saved": lambda note: note.missing}),
    )
    store = await reopen(kinds=[notes])
    await store.append(notes("trip"), Listed("n", "Buy milk"))
    [item] = await store.items(notes("trip"))
    assert str(notes("trip").line(item)) == "note saved: Buy milk"


async def test_a_sweep_takes_only_what_no_record_names(saved: foldlog.Store) -> None:
    key: Key[Any] = FILES("trip", "map")
    await saved.blobs.put(key, b"its program died")
    assert await saved.blobs.sweep(older_than=0) == 1
    assert await load(saved, "trip", "map") == MAP


async def records(store: foldlog.Store) -> list[LogRecord]:
    return [record async for record in store.records(session_id="trip")]
