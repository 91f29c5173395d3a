"""A process may be killed, or its power fail, after any write to its spool: nothing told is lost.

The sweep itself is shown to find what it has to, by bugs that are planted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

import pytest

from foldlog.store.spool import file, outbox, spool
from foldlog.store.spool.file import Chunk, Frame, SpoolFile
from foldlog.store.spool.outbox import Outbox
from tests.support.crashes import (
    Event,
    Fault,
    Run,
    Told,
    Work,
    crashes,
    faults,
    faults_of_recovering,
    overfull,
    recorded,
)
from tests.support.disk import Synced, SyncedDirectory, Unlinked, Wrote
from tests.support.flaky import State

ROOMY = 1 << 20


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few saves take several chunks."""
    monkeypatch.setattr(file, "CHUNK_BYTES", 150)
    monkeypatch.setattr(outbox, "_FIRST_PAUSE", 0.001)


async def outage(run: Run) -> None:
    """The log is away twice; the second time nobody is left who sees it come back."""
    run.log.state = "away"
    await run.save(("updates", "one", "a"))
    await asyncio.gather(
        run.save(("updates", "one", "b")),
        run.save(("updates", "two", "c")),
        run.save(("memory", "key", "d")),
    )
    for id in ("e", "f"):
        await run.save(("updates", "one", id))
    await run.save(("updates", "one", "g"), ("updates", "two", "h"), atomic=True)
    await run.settled()
    run.log.state = "ack lost"
    await run.save(("memory", "key", "i"))
    run.log.state = "away"
    for id in ("j", "k", "l"):
        await run.save(("memory", "key", id))


async def outages(run: Run) -> None:
    """The log comes and goes, also while what waits is appended, and loses acks."""
    states: tuple[State, ...] = ("away", "ack lost", "not stored")
    for number, state in enumerate(states):
        run.log.state = "away"
        await asyncio.gather(
            *(run.save(("updates", key, f"{number}{key}{n}")) for n in range(4) for key in "xy")
        )
        both = ("updates", "x", f"{number}atomic"), ("tasks", "x", f"{number}task")
        await run.save(*both, atomic=True)
        run.log.before_append = interrupting(run, state)
        await run.save(("memory", "key", f"{number}while it is drained"))
        run.log.before_append = lambda: None
        await run.settled()
        await run.save(("memory", "key", f"{number}after"))
    run.log.state = "away"
    await run.save(("updates", "x", "left"), ("updates", "y", "behind"))


def interrupting(run: Run, state: State) -> Callable[[], None]:
    """Have the log be there for two appends, and then no more."""
    left: list[State] = ["up", "up"]

    def interrupt() -> None:
        run.log.state = left.pop() if left else state

    return interrupt


async def refusals(run: Run) -> None:
    """The log takes some of what waits, and not the rest."""
    run.log.state = "away"
    for id in ("a", "bad", "b", "worse", "c"):
        await run.save(("updates", "one", id))
    run.log.refused = {"bad", "worse"}
    run.log.state = "up"
    await run.settled()
    await run.save(("updates", "one", "d"))


async def flood(run: Run) -> None:
    """More is saved than there is room for, before the log comes back and after."""
    for _ in range(2):
        run.log.state = "away"
        for n in range(12):
            await run.save(("updates", "one", f"{n} of {len(run.events)}"))
        await run.settled()


async def all_of(found: AsyncGenerator[Fault]) -> list[Fault]:
    return [fault async for fault in found]


async def first_of(found: AsyncGenerator[Fault]) -> Fault | None:
    async with aclosing(found):
        return await anext(found, None)


def covers_all(events: Sequence[Event]) -> bool:
    """Whether there is something of each kind to crash after."""
    kinds = {type(event) for event in events}
    return {Wrote, Synced, SyncedDirectory, Unlinked, Told} <= kinds


async def test_nothing_told_is_lost_or_out_of_order(tmp_path: Path) -> None:
    events = await recorded(tmp_path / "run", outage, limit=ROOMY)
    assert covers_all(events)
    assert len(crashes(events)) > 30
    assert await all_of(faults(events, tmp_path)) == []


@pytest.mark.long
@pytest.mark.parametrize("work", [outages, refusals, flood])
async def test_nor_when_much_goes_wrong_besides(tmp_path: Path, work: Work) -> None:
    limit = 700 if work is flood else ROOMY
    events = await recorded(tmp_path / "run", work, limit=limit)
    assert covers_all(events)
    assert overfull(events, limit) == []
    assert await all_of(faults(events, tmp_path, aside={"bad", "worse"})) == []


@pytest.mark.long
async def test_nor_when_the_process_that_recovers_crashes_too(tmp_path: Path) -> None:
    events = await recorded(tmp_path / "run", outage, limit=ROOMY)
    for crash in crashes(events):
        found = faults_of_recovering(events, crash, tmp_path / "again")
        assert await all_of(found) == []


async def test_a_spool_never_takes_more_than_it_may(tmp_path: Path) -> None:
    events = await recorded(tmp_path / "run", flood, limit=700)
    told = sum(isinstance(event, Told) for event in events)
    assert 6 < told < 24  # some of it was dropped
    assert overfull(events, 700) == []


# --- planted bugs -------------------------------------------------------------------------------

Plant = Callable[[pytest.MonkeyPatch], None]


def no_fsync(patch: pytest.MonkeyPatch) -> None:
    """What is told to be kept was only written."""

    def append(self: SpoolFile, frames: Sequence[bytes]) -> None:
        data = b"".join(frames)
        file._write(self._lock.fileno(), data, self.end)
        self.end += len(data)

    patch.setattr(SpoolFile, "append", append)


def no_fsync_of_the_directory(patch: pytest.MonkeyPatch) -> None:
    """The file is on the disk, and its name may not be."""
    patch.setattr(file, "sync", lambda directory: None)


def no_fsync_of_its_parent(patch: pytest.MonkeyPatch) -> None:
    """The directory itself may not be there."""

    def make_private(directory: Path) -> None:
        directory.mkdir(0o700, exist_ok=True)

    patch.setattr(file, "make_private", make_private)


def the_last_first(patch: pytest.MonkeyPatch) -> None:
    """What is taken together is appended the other way round."""
    original = Outbox._append

    async def append(self: Outbox, frames: Sequence[Frame]) -> int:
        return await original(self, list(reversed(frames)))

    patch.setattr(Outbox, "_append", append)
    patch.setattr(file, "CHUNK_BYTES", 1000)


def removed_too_early(patch: pytest.MonkeyPatch) -> None:
    """The file goes with the attempt to append what is in it."""
    original = SpoolFile.read

    def read(self: SpoolFile) -> Chunk | None:
        found = original(self)
        self.path.unlink(missing_ok=True)
        return found

    patch.setattr(SpoolFile, "read", read)


BUGS: dict[Plant, str] = {
    no_fsync: "lost",
    no_fsync_of_the_directory: "lost",
    no_fsync_of_its_parent: "lost",
    the_last_first: "out of order",
    removed_too_early: "lost",
}


@pytest.mark.parametrize(
    ("plant", "what"), BUGS.items(), ids=lambda it: getattr(it, "__name__", it)
)
async def test_a_bug_is_found(tmp_path: Path, plant: Plant, what: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        events = await recorded(tmp_path / "run", outage, limit=ROOMY)
    found = await first_of(faults(events, tmp_path))
    assert found is not None
    assert found.what == what


async def test_a_spool_without_a_bound_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool.Spool, "put", _put_without_a_limit(spool.Spool.put))
    events = await recorded(tmp_path / "run", flood, limit=700)
    assert [fault.what for fault in overfull(events, 700)] == ["more than the bound"]


def _put_without_a_limit(
    put: Callable[[spool.Spool, Sequence[Frame]], object],
) -> Callable[[spool.Spool, Sequence[Frame]], object]:
    def put_all(self: spool.Spool, frames: Sequence[Frame]) -> object:
        self._limit = ROOMY
        return put(self, frames)

    return put_all
