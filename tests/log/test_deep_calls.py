"""A call close to the interpreter's recursion limit fails alone: nothing is left asleep."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from foldlog.errors import FoldlogError
from foldlog.log.jetstream import appender as module
from tests.conftest import OpenStore
from tests.log.marks import open_appender
from tests.log.test_outcomes import OTHER, SUBJECT, Server, append
from tests.support.build import update

PATIENCE = 60.0


async def deep(depth: int, call: Callable[[], Awaitable[Any]]) -> Any:
    """Await a call, that many frames deeper."""
    return await (deep(depth - 1, call) if depth else call())


@pytest.mark.parametrize("kind", ["save", "read", "watch", "decide"])
async def test_a_store_goes_on_after_a_recursion_error(reopen: OpenStore, kind: str) -> None:
    store = await reopen()

    async def save() -> None:
        await store.save_update(update("deep"))

    async def read() -> None:
        await store.list_updates("session", consistency="strong")

    async def watch() -> None:
        await store.list_updates("another", consistency="strong")

    async def decide() -> None:
        await store.clear_session("deep")

    call = {"save": save, "read": read, "watch": watch, "decide": decide}[kind]
    limit, failed = sys.getrecursionlimit(), 0
    for depth in range(limit - 190, limit - 20, 2):
        try:
            await deep(depth, call)
        except RecursionError:
            failed += 1
        except FoldlogError:
            pass
        if failed and depth % 10 == 0:
            async with asyncio.timeout(PATIENCE):
                await store.save_update(update(f"{depth}"))
                await store.list_updates("session", consistency="strong")
    assert failed
    async with asyncio.timeout(PATIENCE):
        await store.save_update(update("last"))
        updates = await store.list_updates("session", consistency="strong")
    assert updates[-1].update_id == "last"


@pytest.mark.parametrize("broken", ["_messages", "Batch.add"])
async def test_an_unexpected_error_fails_those_who_wait(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def fail(*args: object) -> None:
        raise RuntimeError("unexpected")

    appender = open_appender(Server())
    with monkeypatch.context() as patch:
        if broken == "_messages":
            patch.setattr(module, "_messages", fail)
        else:
            patch.setattr(module.Batch, "add", fail)
        calls = [
            appender.append([append(f"{n}", s)], atomic=False)
            for n, s in ((1, SUBJECT), (2, OTHER))
        ]
        async with asyncio.timeout(PATIENCE):
            found = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(error) for error in found] == [RuntimeError] * 2
    assert appender.pending_bytes == 0
    assert await appender.append([append("3")], atomic=False) == [1]
    await appender.close()
