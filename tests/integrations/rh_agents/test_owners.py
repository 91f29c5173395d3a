"""Of two who have an execution one can append, on every backend."""

from __future__ import annotations

import pytest

import foldlog
from foldlog import kinds
from foldlog.integrations.rh_agents import Execution, StateBackend
from foldlog.runs import RunBusy, RunTakenOver
from foldlog_projections.runs import processes
from tests.conftest import OpenStore
from tests.integrations.rh_agents.running import Steps, loaded
from tests.support.stores import appended


async def frozen(store: foldlog.Store) -> Execution:
    """An execution whose owner does nothing more, and is held for dead."""
    found = await StateBackend(store).execution("s")
    found.storage["by"] = "the frozen one"
    process = (await store.view(kinds.runs("s", "s"))).process
    await store.erase(processes.kind(process))
    return found


async def test_another_owner_waits(store: foldlog.Store, reopen: OpenStore, steps: Steps) -> None:
    async with StateBackend(store).execution("s") as first:
        await first.step("a", steps.giving("a", 1))
        before = (await loaded(store, "s")).updated_at
        with pytest.raises(RunBusy):
            await StateBackend(await reopen()).execution("s", wait=0)
        assert (await loaded(store, "s")).updated_at == before
    async with StateBackend(await reopen()).execution("s") as second:
        assert await second.step("a", steps.giving("b", 2)) == 1


async def test_who_was_taken_over_saves_nothing_any_more(
    store: foldlog.Store, reopen: OpenStore, steps: Steps
) -> None:
    first = await frozen(store)
    async with StateBackend(await reopen()).execution("s") as second:
        second.storage["by"] = "the second"
        await second.save_checkpoint()
        before = await appended(store)
        for write in (
            lambda: first.step("b", steps.giving("b", 2)),
            lambda: first.save_checkpoint(),
            lambda: first.put_artifact("c", b"c"),
            lambda: first.ask("c"),
            lambda: first.close(),
        ):
            with pytest.raises(RunTakenOver):
                await write()
        assert await appended(store) - before == 1  # an artifact that nobody refers to
    assert steps.called == []
    found = await loaded(store, "s")
    assert found.execution_state["storage"]["data"] == {"by": "the second"}


async def test_an_execution_whose_state_was_deleted_does_not_bring_it_back(
    store: foldlog.Store, steps: Steps
) -> None:
    run = await StateBackend(store).execution("s")
    await run.step("a", steps.giving("a", 1))
    await StateBackend(store).delete_state("s")
    with pytest.raises(RunTakenOver, match="was removed"):
        await run.step("b", steps.giving("b", 1))
    with pytest.raises(RunTakenOver):
        await run.close()
    assert await StateBackend(store).load_state("s") is None
    assert steps.called == ["a"]


async def test_an_execution_that_began_anew_has_another_owner(
    store: foldlog.Store, steps: Steps
) -> None:
    first = await StateBackend(store).execution("s")
    await StateBackend(store).delete_state("s")
    async with StateBackend(store).execution("s") as second:
        with pytest.raises(RunTakenOver):
            await first.step("a", steps.giving("a", 1))
        await second.step("a", steps.giving("a", 2))
    assert steps.called == ["a"]
