"""An execution of another library survives kill -9 on foldlog's blocking backends, as it is."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.integrations.rh_agents import StateBackend, StateStatus
from tests.integrations.rh_agents.processes.conftest import Effects, ended, killed, loaded, storage
from tests.support.workers import StartWorker

DONE = {"paid": {"paid": 7}, "weights": [1, 2, 3]}


async def test_it_goes_on_in_another_process(
    store: foldlog.Store, start_foreign: StartWorker, effects: Effects
) -> None:
    """Saved, restored and replayed: with results, storage and artifacts."""
    await killed(await start_foreign(halt_after="search"), "after", "search")
    await killed(await start_foreign(halt_after="pick"), "after", "pick")
    assert storage(await loaded(store)) == {"seat": "12A"}
    assert await ended(await start_foreign()) == ["done", DONE, ["pay"]]
    assert effects() == ["search", "train", "pick", "pay"]
    assert (await loaded(store)).status is StateStatus.COMPLETED


@pytest.mark.long
async def test_it_resumes_from_an_address(
    store: foldlog.Store, start_foreign: StartWorker, effects: Effects
) -> None:
    await killed(await start_foreign(halt_after="pay"), "after", "pay")
    assert await ended(await start_foreign(resume_from="pick")) == ["done", DONE, ["pick", "pay"]]
    assert effects() == ["search", "train", "pick", "pay", "pick", "pay"]
    found = await loaded(store)
    events = found.execution_state["history"]["events"]
    assert [event["address"] for event in events] == ["search", "pick", "pay"]


@pytest.mark.long
async def test_it_saves_by_itself_and_is_found(
    store: foldlog.Store, start_foreign: StartWorker, effects: Effects
) -> None:
    await killed(await start_foreign(halt_after="pick", auto=True), "after", "pick")
    assert await ended(await start_foreign(auto=True, status="paused")) == ["done", DONE, ["pay"]]
    assert effects() == ["search", "train", "pick", "pay"]
    find = StateBackend(store).list_states
    for wanted in ({"tags": ["theirs"]}, {"status": "paused"}, {"pipeline_name": "booking"}):
        assert [found.state_id for found in await find(**wanted)] == ["booking-1"]
    assert (await StateBackend(store).artifacts.collect_garbage(older_than=0)).artifact_ids == ()
