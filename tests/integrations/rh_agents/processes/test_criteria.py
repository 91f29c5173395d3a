"""What state recovery is for, shown by real processes with a kill -9 between them.

The ten success criteria of the plan that it follows, one test each.
"""

from __future__ import annotations

import os
from pathlib import Path

import foldlog
import foldlog.integrations.rh_agents
from foldlog.integrations.rh_agents import StateBackend, StateSnapshot, StateStatus
from tests.integrations.rh_agents.processes.conftest import (
    Effects,
    ended,
    killed,
    loaded,
    paid,
    storage,
)
from tests.integrations.rh_agents.processes.worker import OFFERS
from tests.support.workers import StartWorker


async def test_criterion_1_save_state(store: foldlog.Store, start_worker: StartWorker) -> None:
    """`save_checkpoint()`: what was saved is there when its process is not."""
    await killed(await start_worker(halt_after="pick", checkpoint=True), "after", "pick")
    assert storage(await loaded(store)) == {"offers": len(OFFERS), "seat": "12A"}


async def test_criterion_2_restore_state(store: foldlog.Store, start_worker: StartWorker) -> None:
    """`load_from_state_id()`: another process goes on with it."""
    await killed(await start_worker(halt_after="pick", checkpoint=True), "after", "pick")
    before = await loaded(store)
    assert before.status is StateStatus.RUNNING
    assert await ended(await start_worker()) == paid()
    after = await loaded(store)
    assert (after.status, after.created_at) == (StateStatus.COMPLETED, before.created_at)


async def test_criterion_3_smart_replay(start_worker: StartWorker, effects: Effects) -> None:
    """Steps that are done are skipped."""
    await killed(await start_worker(halt_after="pick"), "after", "pick")
    assert await ended(await start_worker()) == paid()
    assert await ended(await start_worker()) == paid()
    assert effects() == ["search", "pick", "pay"]


async def test_criterion_4_selective_replay(start_worker: StartWorker, effects: Effects) -> None:
    """From an address on they are done again."""
    await killed(await start_worker(halt_after="pay"), "after", "pay")
    changed = await start_worker(resume_from="pick", fare=80, halt_after="pick")
    await killed(changed, "after", "pick")
    assert await ended(await start_worker(fare=80)) == paid(fare=80)
    assert effects() == ["search", "pick", "pay", "pick", "pay"]


async def test_criterion_5_artifact_recovery(
    store: foldlog.Store, start_worker: StartWorker, effects: Effects
) -> None:
    """Large objects are restored and not computed again."""
    await killed(await start_worker(halt_after="pick"), "after", "pick")
    artifact_id = (await loaded(store)).artifact_refs["search"]
    assert await StateBackend(store).artifacts.load_artifact(artifact_id) == OFFERS
    assert await ended(await start_worker()) == paid()
    assert effects().count("search") == 1


async def test_criterion_6_metadata_querying(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    """By tags, status and pipeline."""
    await killed(await start_worker(halt_after="pick", tags=["vip"]), "after", "pick")
    assert (await ended(await start_worker(ask=True)))[0] == "paused"
    find = StateBackend(store).list_states
    for wanted in ({"tags": ["vip"]}, {"status": "paused"}, {"pipeline_name": "booking"}):
        assert [found.state_id for found in await find(**wanted)] == ["booking-1"]
    for other in ({"tags": ["vip", "x"]}, {"status": "running"}, {"pipeline_name": "other"}):
        assert await find(**other) == []


async def test_criterion_7_state_diffing(store: foldlog.Store, start_worker: StartWorker) -> None:
    """Before the kill and after the end."""
    await killed(await start_worker(halt_after="pick"), "after", "pick")
    before = await loaded(store)
    await ended(await start_worker())
    diff = StateSnapshot.diff(before, await loaded(store))
    assert [event["address"] for event in diff.new_events] == ["pay"]
    assert diff.removed_events == []
    assert diff.changed_storage == {"offers": (None, len(OFFERS)), "seat": (None, "12A")}
    assert (diff.new_artifacts, diff.removed_artifacts) == ([], [])


async def test_criterion_8_validation_mode(start_worker: StartWorker, effects: Effects) -> None:
    """Whether it is deterministic."""
    await killed(await start_worker(halt_after="pay"), "after", "pay")
    assert await ended(await start_worker(mode="validation")) == ["mismatches"]
    assert await ended(await start_worker(mode="validation", fare=80)) == [
        "mismatches",
        ["pick", "result.fare"],
    ]
    assert effects() == ["search", "pick", "pay"] * 3


async def test_criterion_9_auto_checkpoint(store: foldlog.Store, start_worker: StartWorker) -> None:
    """Without a word of the pipeline."""
    await killed(await start_worker(halt_after="pick", auto=True), "after", "pick")
    assert storage(await loaded(store)) == {"offers": len(OFFERS)}


async def test_criterion_10_no_cache_dependency(
    store: foldlog.Store,
    start_worker: StartWorker,
    effects: Effects,
    tmp_path: Path,
) -> None:
    """Nothing beside the log, and no word of a cache."""
    await killed(await start_worker(halt_after="pick"), "after", "pick")
    assert os.listdir(tmp_path) == ["effects"]
    assert [
        name for name in foldlog.integrations.rh_agents.__all__ if "cache" in name.lower()
    ] == []
    assert await ended(await start_worker()) == paid()
    assert effects() == ["search", "pick", "pay"]
