"""What is saved in several views at once while their session is cleared is there whole, or gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count

import pytest

import foldlog
from foldlog.log.port import Append, Log
from foldlog.subjects import Branch, Subject
from tests.conftest import OpenStore
from tests.support.build import event, task, trajectory, update

REQUESTS = 26
"""More than a clearing makes of the kinds that are counted here, with its repetitions."""


async def save(store: foldlog.Store, name: str, *, trace: bool) -> None:
    """Save in several views at once, of a trace also in those that a list names."""
    async with store.atomic():
        await store.append_messages("session", [foldlog.Message(name, "test", name)])
        await store.save_update(update(name))
        await store.save_task(task(name))
        if trace:
            await store.save_trajectory(name, "session", trajectory(name))
            await store.save_event(event(name, payload={"said": name}))


async def found(store: foldlog.Store, name: str, *, trace: bool) -> dict[str, bool]:
    """In which views it is."""
    messages = await store.list_messages("session", consistency="strong")
    updates = await store.list_updates("session", consistency="strong")
    tasks = await store.list_tasks("session", consistency="strong")
    there = {
        "messages": any(each.id == name for each in messages),
        "updates": any(each.update_id == name for each in updates),
        "tasks": any(each.task_id == name for each in tasks),
    }
    if trace:
        kept = await store.get_trajectory(name, "session", consistency="strong")
        there |= {
            "traces": name in await store.list_traces("session", consistency="strong"),
            "trajectory": kept is not None,
            "events": bool(await store.load_history(name, consistency="strong")),
        }
    return there


def between_requests(
    patched: pytest.MonkeyPatch, log: Log, nth: int, call: Callable[[], Awaitable[object]]
) -> None:
    """Have something called before the log's append, or after its purge, of that number."""
    append, purge, requests = log.append, log.purge, count()

    async def appending(appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        if next(requests) == nth:
            await call()
        return await append(appends, atomic=atomic)

    async def purging(
        which: Subject | Branch | int, *, before: int, overwrite: bool = True
    ) -> None:
        await purge(which, before=before, overwrite=overwrite)
        if next(requests) == nth:
            await call()

    patched.setattr(log, "append", appending)
    patched.setattr(log, "purge", purging)


@pytest.mark.parametrize("trace", [True, False], ids=["trace", "no trace"])
async def test_an_atomic_save_during_a_clearing_is_whole_or_gone(
    store: foldlog.Store,
    reopen: OpenStore,
    monkeypatch: pytest.MonkeyPatch,
    trace: bool,
) -> None:
    other = await reopen()
    for nth in range(REQUESTS):
        await save(store, "before", trace=True)
        with monkeypatch.context() as patched:
            between_requests(
                patched, store._core.log, nth, partial(save, other, f"new-{nth}", trace=trace)
            )
            await store.clear_session("session")
        for reader in (store, other):
            assert not any((await found(reader, "before", trace=True)).values())
            there = await found(reader, f"new-{nth}", trace=trace)
            assert len(set(there.values())) == 1, (nth, there)
