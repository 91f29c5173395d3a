"""What state recovery is for, shown by real processes, with a kill -9 between them.

Each process runs the pipeline of `worker.py`: search, pick, perhaps ask, pay. The effects of its
steps are lines of a file, so that what happened is counted where it happened.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import foldlog
import foldlog.recovery
from foldlog.recovery import StateSnapshot, StateStatus
from tests.processes.conftest import Worker
from tests.recovery.worker import OFFERS

SCRIPT = Path(__file__).with_name("worker.py")

StartWorker = Callable[..., Awaitable[Worker]]


@pytest.fixture
async def start_worker(tmp_path: Path) -> AsyncIterator[StartWorker]:
    """Starts the pipeline on the test's data directory, as its only execution."""
    workers: list[Worker] = []

    async def start(**options: Any) -> Worker:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SCRIPT),
            str(tmp_path / "data"),
            "booking-1",
            str(tmp_path / "effects"),
            json.dumps(options),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        workers.append(Worker(process))
        return workers[-1]

    yield start
    for worker in workers:
        if worker.process.returncode is None:
            worker.kill()
        await worker.process.communicate()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[foldlog.Store]:
    """What another process sees: this one."""
    async with foldlog.connect(path=tmp_path / "data") as store:
        yield store


@pytest.fixture
def effects(tmp_path: Path) -> Callable[[], list[str]]:
    """What really happened, in order."""
    return lambda: (tmp_path / "effects").read_text().split()


async def killed(worker: Worker, *where: str) -> None:
    """Kill a worker where it halts."""
    while await worker.hear() != list(where):
        pass
    worker.kill()
    await worker.process.wait()


async def ended(worker: Worker) -> list[Any]:
    """What a worker says last."""
    said = await worker.hear_rest()
    assert worker.process.returncode in (None, 0), await worker.complaint()
    return said[-1]


async def loaded(store: foldlog.Store) -> StateSnapshot:
    found = await store.recovery.load_state("booking-1")
    assert found is not None
    return found


def storage(snapshot: StateSnapshot) -> dict[str, Any]:
    data: dict[str, Any] = snapshot.execution_state["storage"]["data"]
    return data


def paid(answer: str = "unasked", fare: int = 100) -> list[Any]:
    """What an execution that came to its end says."""
    picked = {"seat": "12A", "fare": fare}
    return ["done", {"offers": len(OFFERS), "picked": picked, "paid": {"answer": answer}}]


# --- the ten criteria ---------------------------------------------------------------------------


async def test_1_a_saved_state_survives_its_process(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    await killed(await start_worker(halt_after="pick", checkpoint=True), "after", "pick")
    assert storage(await loaded(store)) == {"offers": len(OFFERS), "seat": "12A"}


async def test_2_a_state_is_restored_in_another_process(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    await killed(await start_worker(halt_after="pick", checkpoint=True), "after", "pick")
    before = await loaded(store)
    assert before.status is StateStatus.RUNNING
    assert await ended(await start_worker()) == paid()
    after = await loaded(store)
    assert (after.status, after.created_at) == (StateStatus.COMPLETED, before.created_at)


async def test_3_replay_skips_what_is_done(
    start_worker: StartWorker, effects: Callable[[], list[str]]
) -> None:
    await killed(await start_worker(halt_after="pick"), "after", "pick")
    assert await ended(await start_worker()) == paid()
    assert await ended(await start_worker()) == paid()
    assert effects() == ["search", "pick", "pay"]


async def test_4_an_execution_resumes_from_an_address(
    start_worker: StartWorker, effects: Callable[[], list[str]]
) -> None:
    await killed(await start_worker(halt_after="pay"), "after", "pay")
    changed = await start_worker(resume_from="pick", fare=80, halt_after="pick")
    await killed(changed, "after", "pick")
    assert await ended(await start_worker(fare=80)) == paid(fare=80)
    assert effects() == ["search", "pick", "pay", "pick", "pay"]


async def test_5_artifacts_are_restored_without_being_made_again(
    store: foldlog.Store, start_worker: StartWorker, effects: Callable[[], list[str]]
) -> None:
    await killed(await start_worker(halt_after="pick"), "after", "pick")
    artifact_id = (await loaded(store)).artifact_refs["search"]
    assert await store.recovery.artifacts.load_artifact(artifact_id) == OFFERS
    assert await ended(await start_worker()) == paid()
    assert effects().count("search") == 1


async def test_6_states_are_found_by_their_metadata(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    await killed(await start_worker(halt_after="pick", tags=["vip"]), "after", "pick")
    assert (await ended(await start_worker(ask=True)))[0] == "paused"
    find = store.recovery.list_states
    for wanted in ({"tags": ["vip"]}, {"status": "paused"}, {"pipeline_name": "booking"}):
        assert [found.state_id for found in await find(**wanted)] == ["booking-1"]
    for other in ({"tags": ["vip", "x"]}, {"status": "running"}, {"pipeline_name": "other"}):
        assert await find(**other) == []


async def test_7_two_moments_are_compared(store: foldlog.Store, start_worker: StartWorker) -> None:
    await killed(await start_worker(halt_after="pick"), "after", "pick")
    before = await loaded(store)
    await ended(await start_worker())
    diff = StateSnapshot.diff(before, await loaded(store))
    assert [event["address"] for event in diff.new_events] == ["pay"]
    assert diff.removed_events == []
    assert diff.changed_storage == {"offers": (None, len(OFFERS)), "seat": (None, "12A")}
    assert (diff.new_artifacts, diff.removed_artifacts) == ([], [])


async def test_8_a_validation_verifies_that_it_is_deterministic(
    start_worker: StartWorker, effects: Callable[[], list[str]]
) -> None:
    await killed(await start_worker(halt_after="pay"), "after", "pay")
    assert await ended(await start_worker(mode="validation")) == ["mismatches"]
    assert await ended(await start_worker(mode="validation", fare=80)) == [
        "mismatches",
        ["pick", "result.fare"],
    ]
    assert effects() == ["search", "pick", "pay"] * 3


async def test_9_checkpoints_are_saved_by_themselves(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    await killed(await start_worker(halt_after="pick", auto=True), "after", "pick")
    assert storage(await loaded(store)) == {"offers": len(OFFERS)}


async def test_10_nothing_but_the_log_is_needed(
    store: foldlog.Store,
    start_worker: StartWorker,
    effects: Callable[[], list[str]],
    tmp_path: Path,
) -> None:
    """No cache beside the log, and no word of one."""
    await killed(await start_worker(halt_after="pick"), "after", "pick")
    assert set(os.listdir(tmp_path)) <= {"data", "effects"}
    assert [name for name in foldlog.recovery.__all__ if "cache" in name.lower()] == []
    assert await ended(await start_worker()) == paid()
    assert effects() == ["search", "pick", "pay"]


# --- what may go wrong --------------------------------------------------------------------------


async def test_a_step_that_died_with_its_process_is_reported_and_not_repeated(
    store: foldlog.Store, start_worker: StartWorker, effects: Callable[[], list[str]]
) -> None:
    await killed(await start_worker(halt_in="pay"), "in", "pay")
    said = await (await start_worker()).hear_rest()
    assert said == [["unknown", "pay"], ["stuck", "pay"]]
    assert effects() == ["search", "pick", "pay"]
    async with store.recovery.execution("booking-1") as run:
        await run.confirm("pay", {"answer": "unasked"})
    assert await ended(await start_worker()) == paid()
    assert effects() == ["search", "pick", "pay"]


async def test_the_user_answers_when_the_asking_process_is_gone(
    store: foldlog.Store, start_worker: StartWorker, effects: Callable[[], list[str]]
) -> None:
    asked = await ended(await start_worker(ask=True))
    assert asked == ["paused", "approve", {"seat": "12A", "fare": 100}]
    assert await store.recovery.answer("booking-1", "approve", "yes")
    await killed(await start_worker(ask=True, halt_after="pick"), "after", "pick")
    assert await ended(await start_worker(ask=True)) == paid("yes")
    assert effects() == ["search", "pick", "pay"]


async def test_a_process_that_was_taken_over_cannot_go_on(
    store: foldlog.Store, start_worker: StartWorker, effects: Callable[[], list[str]]
) -> None:
    first = await start_worker(halt_after="pick")
    while await first.hear() != ["after", "pick"]:
        pass
    second = await start_worker()
    assert await ended(second) == paid()
    first.tell()
    assert await ended(first) == ["conflict"]
    assert effects() == ["search", "pick", "pay"]
    assert (await loaded(store)).status is StateStatus.COMPLETED
