"""For random histories: the past is the fold of the prefix, forks leave their origins alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import foldlog
from foldlog.envelope import CLEARED
from foldlog.position import LogPosition, Reach
from foldlog_projections.registry import FAMILIES
from tests.support.stores import EmbeddedBackend
from tests.travel.history import HISTORIES, History, Oracle, portrait

Check = Callable[[foldlog.Store, list[Any]], Awaitable[None]]


async def the_past_is_what_was_shown(store: foldlog.Store, steps: list[Any]) -> None:
    history = History(store)
    for step in steps:
        await history.take(step)
    for position, shown in history.seen:
        past = store.at(LogPosition.parse(str(position)))
        again = await portrait(past, history.sessions)
        gone = {key for key, value in again.items() if value is foldlog.PastErased}
        cleared = {key.removeprefix("session ") for key in gone}
        assert set(shown["sessions"]) - set(again["sessions"]) <= cleared
        for key in shown.keys() - gone - {"sessions"}:
            if not key.startswith("bytes ") or key.split(" ")[1] not in cleared:
                assert again[key] == shown[key], (str(position), key)
    assert (await store.rebuild()).differing == ()


async def every_position_is_a_fold_of_the_prefix(store: foldlog.Store, steps: list[Any]) -> None:
    history = History(store)
    for step in steps:
        await history.take(step)
    oracle = await Oracle.of(store._core.log)
    for seq, index in oracle.places:
        past = store.at(LogPosition((Reach(seq, index),)))
        for name, envelopes in oracle.envelopes.items():
            family = name.split(".")[3]
            if family not in FAMILIES:
                continue
            subject = store._core.log.namespace.parse(name)
            assert subject is not None
            reading = past._core.hot_views.read(FAMILIES[family], subject, "session")
            first = envelopes[0]
            if first.type == CLEARED and (first.seq, first.index) > (seq, index):
                with pytest.raises(foldlog.PastErased):
                    await reading
            else:
                expected = oracle.folded(store._core.log, name, (seq, index))
                assert await reading == expected, (seq, index, name)


async def diverging_leaves_the_origin_alone(store: foldlog.Store, steps: list[Any]) -> None:
    history = History(store)
    for step in steps:
        if step[0] not in ("clear", "fork"):
            await history.take((step[0], "s.*", *step[2:]))
    await history.take(("update", "s.*", "y"))
    history.forks = [await store.fork("s.*", to="fork")]
    history.parents = {"fork": "s.*"}
    held, shown = await _held(store), await portrait(store, ["s.*"])
    for step in steps:
        # An artifact is deleted by its id alone: from the session that saved it.
        if step[0] not in ("delete", "memory", "fork"):
            await history.take((step[0], "fork", *step[2:]))
    assert await _held(store) == held
    assert (await portrait(store, ["s.*"])) | {"sessions": None} == shown | {"sessions": None}
    assert (await store.rebuild()).differing == ()


async def _held(store: foldlog.Store) -> list[Any]:
    """Every record that is not the fork's own, but for who is forked from whom, and where
    artifacts are."""
    found = []
    async for page in store._core.log.scan(0):
        for stored in page:
            subject = store._core.log.namespace.parse(stored.subject)
            assert subject is not None
            is_forks = any(
                key in ("fork", "session:fork") or key.startswith("fork/") for key in subject.keys
            )
            if not is_forks and subject.family not in ("lineage", "artifact"):
                found.append(stored)
    return found


CHECKS: list[Check] = [
    the_past_is_what_was_shown,
    every_position_is_a_fold_of_the_prefix,
    diverging_leaves_the_origin_alone,
]


each_check = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)


def in_memory(check: Check, examples: int) -> None:
    @settings(max_examples=examples)
    @given(HISTORIES)
    def run(steps: list[Any]) -> None:
        async def work() -> None:
            async with foldlog.memory_store() as store:
                await check(store, steps)

        asyncio.run(work())

    run()


@each_check
def test_in_memory(check: Check) -> None:
    in_memory(check, 10)


@pytest.mark.long
@each_check
def test_in_memory_at_length(check: Check) -> None:
    in_memory(check, 150)


@each_check
def test_on_the_embedded_server(check: Check, embedded_path: Path) -> None:
    @settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(HISTORIES)
    def run(steps: list[Any]) -> None:
        async def work() -> None:
            async with await EmbeddedBackend(embedded_path).open() as store:
                await check(store, steps)

        asyncio.run(work())

    run()
