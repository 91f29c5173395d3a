"""A store that only reads: it follows the log, and writes nothing, whatever it is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.log.port import Append
from foldlog.store.core import core_of
from foldlog_projections import updates
from tests.support.build import task, update
from tests.support.stores import fresh_namespace

WRITES: dict[str, Callable[[foldlog.Store], Awaitable[object]]] = {
    "save_update": lambda store: store.save_update(update("u9")),
    "save_task": lambda store: store.save_task(task("t9")),
    "answer": lambda store: store.answer("question/s/r/19ab3f52c10"),
    "start": lambda store: store.start("work"),
    "pause": lambda store: store.queues.pause("default"),
    "clear_session": lambda store: store.clear_session("session"),
    "erase_session": lambda store: store.erase_session("session"),
    "fork": lambda store: store.fork("session", to="fork"),
    "rebuild": lambda store: store.rebuild(),
    "archive": lambda store: store.archive(),
}


async def test_it_follows_the_log_and_refuses_every_write(embedded_path: Path) -> None:
    name = fresh_namespace()
    async with (
        foldlog.connect(path=embedded_path, namespace=name) as store,
        foldlog.connect(path=embedded_path, namespace=name, read_only=True) as reading,
    ):
        assert await reading.list_updates("session") == []
        await store.save_update(update("u1"))
        found = await reading.list_updates("session", consistency="strong")
        assert [each.update_id for each in found] == ["u1"]
        async for each in reading.watch_updates("session"):
            assert each.update_id == "u1"
            break
        before = await store.position()
        for refused, write in WRITES.items():
            with pytest.raises(foldlog.ReadOnlyStore) as raised:
                await write(reading)
            assert raised.value.refused == refused
        with pytest.raises(foldlog.ReadOnlyStore):
            await reading.run("run", session_id="session")
        with pytest.raises(foldlog.ReadOnlyStore):
            reading.atomic()
        # What would pass every method has the log itself refuse it.
        core = core_of(reading)
        draft = core.drafted("save_update", updates.kind("session"), _record())
        with pytest.raises(foldlog.ReadOnlyStore):
            await core.append_at_once([Append(core.subject(updates.kind, "session"), (draft,))])
        assert await store.position() == before


def _record() -> updates.UpdateSaved:
    from foldlog.store.updates import UPDATES

    return UPDATES.record(update("u9"))


async def test_a_pause_waits_on_and_the_list_of_what_waits_is_left_as_it_is(
    embedded_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = fresh_namespace()
    place: dict[str, Any] = {"path": embedded_path, "namespace": name}
    async with (
        foldlog.connect(**place, pause_ttl=0.001) as store,
        foldlog.connect(**place, read_only=True) as reading,
    ):
        await store.save_planner_state("old", {"n": 1}, session_id="trip")
        before = await store.position()
        while await reading.waiting():  # until it has expired: then a reader that writes tidies up
            pass
        assert await store.position() == before
        assert await store.waiting() == []
        assert await store.position() != before
    async with (
        foldlog.connect(**place) as store,
        foldlog.connect(**place, read_only=True) as reading,
    ):
        await store.save_planner_state("t", {"n": 2})
        for _ in range(2):
            assert await reading.load_planner_state("t") == {"n": 2}
        assert await store.load_planner_state("t") == {"n": 2}


async def test_it_makes_nothing_and_has_nothing_to_spool(
    embedded_path: Path, tmp_path: Path
) -> None:
    with pytest.raises(foldlog.ConfigurationError, match="no data directory"):
        await foldlog.connect(path=tmp_path / "none", read_only=True)
    with pytest.raises(foldlog.ConfigurationError, match="namespace"):
        await foldlog.connect(path=embedded_path, namespace=fresh_namespace(), read_only=True)
    with pytest.raises(foldlog.ConfigurationError, match="nothing to spool"):
        foldlog.connect(path=embedded_path, read_only=True, on_error="degrade")


async def test_an_earlier_moment_of_it_reads_too(embedded_path: Path) -> None:
    name = fresh_namespace()
    async with foldlog.connect(path=embedded_path, namespace=name) as store:
        await store.save_update(update("u1"))
        then = await store.position()
        await store.save_update(update("u2"))
        async with foldlog.connect(path=embedded_path, namespace=name, read_only=True) as reading:
            past = reading.at(then)
            assert [each.update_id for each in await past.list_updates("session")] == ["u1"]
            with pytest.raises(foldlog.ReadOnlyStore):
                await past.save_update(update("u3"))
