"""`redact=`: nothing reaches the log, a digest or a spool before the hook has seen it."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import ArtifactScope, RedactionFailed, Saving
from foldlog.store.core import Backend
from foldlog.store.options import Options
from tests.conftest import OpenStore
from tests.redaction.leaks import LEAKY, MASK, SECRET, Hook, masked, raw
from tests.redaction.saves import CASES
from tests.support.build import binding, event, planner_event, trajectory, update
from tests.support.degrading import failures_of
from tests.support.flaky import FlakyLog, files, spooling
from tests.support.in_memory_first import in_memory_first
from tests.support.stores import appended

KINDS = {name: case.kinds for name, case in CASES.items()}
SAVES = {name: case.save for name, case in CASES.items()}


@pytest.mark.parametrize("name", SAVES)
async def test_what_is_saved_is_what_the_hook_returned(reopen: OpenStore, name: str) -> None:
    hook = Hook()
    store = await reopen(redact=hook)
    before = copy.deepcopy(LEAKY)
    await SAVES[name](store)
    assert before == LEAKY, "the caller's own object was changed"
    assert {saving.kind for saving in hook.shown} == KINDS[name]
    assert all(saving.values for saving in hook.shown)
    held = await raw(store)
    assert SECRET.encode() not in held
    assert MASK.encode() in held


async def test_the_hook_is_told_of_what_a_save_is(reopen: OpenStore) -> None:
    hook = Hook()
    store = await reopen(redact=hook)
    await store.save_update(update("u", trace_id="trace"))
    await store.save_planner_event("trace", planner_event())
    await store.save_trajectory("trace", "session", trajectory())
    await store.save_memory_state("key", {"n": 1})
    about = [saving.about for saving in hook.shown]
    assert about[0]["update_id"] == "u"
    assert (about[0]["session_id"], about[0]["trace_id"]) == ("session", "trace")
    assert (about[1]["trace_id"], about[1]["event_type"]) == ("trace", "tool_call")
    assert about[2] == {"trace_id": "trace", "session_id": "session"}
    assert about[3] == {"key": "key"}
    assert hook.shown[3].values == {"state": {"n": 1}}


async def test_readers_get_the_redacted_objects(reopen: OpenStore) -> None:
    store = await reopen(redact=Hook())
    for save in SAVES.values():
        await save(store)
    for reader in (store, await reopen()):
        assert await reader.load_history("other") == [event("other", payload=masked(LEAKY))]
        [saved] = await reader.list_tasks("session")
        assert (saved.result, saved.error) == (masked(LEAKY), MASK)
        assert saved.context_snapshot.session_id == "session"
        assert [u.content for u in await reader.list_updates("session")] == [masked(LEAKY)]
        assert await reader.get_trajectory("trace", "session") == trajectory(MASK)
        assert await reader.list_bindings(trace_id="trace") == [binding(metadata=masked(LEAKY))]
        [ref] = await reader.artifact_store.list(scope=ArtifactScope(session_id="session"))
        assert (ref.filename, ref.source) == (MASK, masked(LEAKY))
        assert await reader.artifact_store.get(ref.id) == MASK.encode()
    assert await store.load_planner_state("token") == masked(LEAKY)


async def test_ids_follow_from_what_is_saved(reopen: OpenStore) -> None:
    """An id that were the digest of a secret would let who can guess it make sure."""
    plain, store = await reopen(), await reopen(redact=Hook())
    await store.save_event(event(payload=LEAKY))
    await plain.save_event(event(payload=masked(LEAKY)))
    assert len(await plain.load_history("trace", consistency="strong")) == 1


# --- a hook that fails --------------------------------------------------------------------------


async def asynchronous(saving: Saving) -> Mapping[str, Any]:
    return saving.values


FAILING: dict[str, Any] = {
    "raises": lambda saving: 1 / 0,
    "returns None": lambda saving: None,
    "drops a name": lambda saving: {},
    "adds a name": lambda saving: {**saving.values, "more": 1},
    "is asynchronous": lambda saving: asynchronous(saving),
}


@pytest.mark.parametrize("name", SAVES)
@pytest.mark.parametrize("how", FAILING)
@in_memory_first
async def test_where_the_hook_fails_nothing_is_appended(
    reopen: OpenStore, backend: Any, how: str, name: str
) -> None:
    if backend.name != "memory" and how != "raises":
        return  # what a hook does is the same everywhere; that nothing was stored is not
    store = await reopen(redact=FAILING[how])
    before = await appended(store)
    with pytest.raises(RedactionFailed) as failed:
        await SAVES[name](store)
    assert failed.value.kind in KINDS[name]
    assert failed.value.method == CASES[name].method
    assert SECRET not in str(failed.value)
    assert await appended(store) == before


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_one_of_many_fails_all(reopen: OpenStore) -> None:
    def picky(saving: Saving) -> Mapping[str, Any]:
        if saving.about["trace_id"] == "bad":
            raise ValueError(SECRET)
        return saving.values

    store = await reopen(redact=picky)
    with pytest.raises(RedactionFailed):
        await store.save_events([event("good"), event("bad")])
    assert await store.load_history("good") == []
    assert await appended(store) == 0


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_what_the_hook_returns_is_checked_like_any_input(reopen: OpenStore) -> None:
    store = await reopen(redact=lambda saving: dict.fromkeys(saving.values, object()))
    accepted = []
    for name, save in SAVES.items():
        try:
            await save(store)
        except foldlog.FoldlogError:
            continue
        accepted.append(name)
    assert accepted == ["Store.save_steering"]  # it is sanitised, which makes text of anything
    with pytest.raises(foldlog.FoldlogError):
        await store.save_events(5)  # type: ignore[arg-type]
    with pytest.raises(foldlog.FoldlogError):
        await store.save_task("no task")  # type: ignore[arg-type]
    assert await appended(store) == len(accepted)


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_a_degrading_store_drops_counts_and_says_so(
    reopen: OpenStore, caplog: pytest.LogCaptureFixture
) -> None:
    def leaky(saving: Saving) -> Mapping[str, Any]:
        raise ValueError(SECRET)

    store = await reopen(redact=leaky, on_error="degrade")
    await store.save_update(update("u", content=LEAKY))
    assert failures_of(store) == {"save_update": 1}
    [line] = [record for record in caplog.records if hasattr(record, "exception")]
    assert line.levelno == logging.ERROR
    assert SECRET not in line.__dict__["exception"]
    assert await appended(store) == 0


async def test_a_spool_holds_what_the_hook_returned(tmp_path: Path) -> None:
    async with spooling(tmp_path, FlakyLog()) as process:
        options = Options(on_error="degrade", redact=Hook())
        store = foldlog.Store(
            Backend(process.log, process.log.blobs, outbox=process.outbox), options
        )
        process.log.state = "away"
        await store.save_update(update("u", content=LEAKY))
        [file] = files(tmp_path)
        assert SECRET.encode() not in file.read_bytes()
        assert MASK.encode() in file.read_bytes()
        await process.drained()


# --- what passes no hook ------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["memory"], indirect=True)
async def test_everything_else_works_as_without(reopen: OpenStore) -> None:
    store = await reopen(redact=Hook())
    await store.save_remote_binding(binding(router_session_id="router"))
    await store.mark_binding_terminal(trace_id="trace", context_id="ctx", task_id="task")
    async with store.atomic():
        await store.save_update(update("u", content=SECRET))
    await asyncio.gather(*(store.save_update(update(str(n))) for n in range(9)))
    await store.clear_session("session")
    await store.clear(store.log.namespace.name)
    assert await store.sessions() == []


@pytest.mark.parametrize("redact", [5, "mask"])
def test_a_hook_is_a_function(redact: Any) -> None:
    with pytest.raises(foldlog.ConfigurationError, match="redact is a function"):
        foldlog.memory_store(redact=redact)


class Asynchronous:
    async def __call__(self, saving: Saving) -> Mapping[str, Any]:
        return saving.values


@pytest.mark.parametrize("redact", [asynchronous, Asynchronous()], ids=["function", "object"])
def test_a_hook_is_not_asynchronous(redact: Any) -> None:
    with pytest.raises(foldlog.ConfigurationError, match="redact must not be asynchronous"):
        foldlog.memory_store(redact=redact)
