"""Several processes on one data directory."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

import foldlog
from tests.support.build import update
from tests.support.workers import StartWorker

EVERYTHING = 1_000_000  # a limit above any count here


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def ids(store: foldlog.Store, session: str = "session") -> list[str]:
    listed = await store.list_updates(session, limit=EVERYTHING, consistency="strong")
    return [u.update_id for u in listed]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_two_processes_see_each_others_writes(path: Path, start_worker: StartWorker) -> None:
    async with foldlog.connect(path=path) as store:
        await store.save_update(update("mine"))
        worker = await start_worker("save", "session", "theirs-", 3)
        assert await worker.hear_rest() == ["theirs-0", "theirs-1", "theirs-2"]
        await worker.finish()
        assert await ids(store) == ["mine", "theirs-0", "theirs-1", "theirs-2"]

        await store.save_update(update("mine again"))
        reader = await start_worker("list", "session")
        assert await reader.hear() == await ids(store)
        await reader.finish()


async def test_a_watcher_follows_another_process(path: Path, start_worker: StartWorker) -> None:
    async with foldlog.connect(path=path) as store:
        watcher = store.watch_updates("session")
        await start_worker("save", "session", "u", 50)
        async with asyncio.timeout(60):
            seen = [(await anext(watcher)).update_id for _ in range(50)]
        await watcher.aclose()
        assert seen == [f"u{n}" for n in range(50)]


async def test_processes_that_start_together_share_one_server(
    path: Path, start_worker: StartWorker
) -> None:
    workers = [await start_worker("save", "session", f"{n}-", 5) for n in range(4)]
    for n, worker in enumerate(workers):
        assert await worker.hear_rest() == [f"{n}-{i}" for i in range(5)]
        await worker.finish()
    async with foldlog.connect(path=path) as store:
        assert sorted(await ids(store)) == sorted(f"{n}-{i}" for n in range(4) for i in range(5))


async def test_one_of_fifty_resumes_in_five_processes_wins(
    path: Path, start_worker: StartWorker
) -> None:
    tokens = [f"token-{n}" for n in range(10)]
    async with foldlog.connect(path=path) as store:
        for token in tokens:
            await store.save_planner_state(token, {"token": token})
        workers = [await start_worker("resume", 10, *tokens) for _ in range(5)]
        for worker in workers:
            assert await worker.hear() == "ready"
        for worker in workers:
            worker.tell()
        wins = [await worker.hear() for worker in workers]
        assert {token: sum(won[token] for won in wins) for token in tokens} == dict.fromkeys(
            tokens, 1
        )
        for worker in workers:
            await worker.finish()


async def test_the_server_ends_with_its_last_user(path: Path, start_worker: StartWorker) -> None:
    worker = await start_worker("serve")
    assert await worker.hear() == "ready"
    async with foldlog.connect(path=path) as store:
        embedded = (await store.health()).embedded
        assert embedded is not None
        await worker.finish()
        await store.save_update(update("after the first user left"))
        assert is_alive(embedded.pid)
    assert not is_alive(embedded.pid)


@pytest.mark.parametrize("joined", [True, False], ids=["joined", "alone"])
async def test_what_a_killed_writer_had_acked_is_there(
    path: Path, start_worker: StartWorker, joined: bool
) -> None:
    writer = await start_worker("flood", "session", "u")
    acked = [await writer.hear() for _ in range(20)]
    # The writer started the server; whoever is joined to it must not lose it.
    store = await foldlog.connect(path=path) if joined else None
    acked += [await writer.hear() for _ in range(80)]
    await writer.kill()
    acked += await writer.hear_rest()

    store = store or await foldlog.connect(path=path)
    async with store:
        await store.save_update(update("afterwards"))
        found = await ids(store)
        assert found[: len(acked)] == acked
        # At most the one save that was under way is stored without its ack being read, also now.
        assert len(found) <= len(acked) + 2
        assert "afterwards" in found[len(acked) :]


async def test_what_was_acked_before_the_server_was_killed_is_there(path: Path) -> None:
    acked: list[list[str]] = [[] for _ in range(8)]
    store = await foldlog.connect(path=path)
    embedded = (await store.health()).embedded
    assert embedded is not None

    async def write(writer: int) -> None:
        for n in range(100):
            id_ = f"{writer}-{n}"
            try:
                await store.save_update(update(id_))
            except foldlog.FoldlogError:
                return  # the outcome of this one is not known; all before it were acked
            acked[writer].append(id_)
            if sum(map(len, acked)) == 100:
                os.kill(embedded.pid, signal.SIGKILL)

    async with asyncio.timeout(60):
        await asyncio.gather(*map(write, range(8)))
        await store.close()
    assert sum(map(len, acked)) >= 100

    async with foldlog.connect(path=path) as again:
        found = await ids(again)
        assert len(set(found)) == len(found)
        for writer, mine in enumerate(acked):
            stored = [id_ for id_ in found if id_.startswith(f"{writer}-")]
            assert stored[: len(mine)] == mine
            # A retry of what may or may not have been stored settles it.
            await again.save_update(update(f"{writer}-{len(mine)}"))
        assert sorted(await ids(again)) == sorted(
            {*found, *(f"{writer}-{len(mine)}" for writer, mine in enumerate(acked))}
        )


async def test_a_store_outlives_its_server(path: Path, start_worker: StartWorker) -> None:
    """The server is killed under an open store, and somebody starts it again."""
    async with foldlog.connect(path=path) as store:
        await store.save_update(update("before"))
        embedded = (await store.health()).embedded
        assert embedded is not None
        os.kill(embedded.pid, signal.SIGKILL)

        worker = await start_worker("save", "session", "during-", 3)
        assert await worker.hear_rest() == ["during-0", "during-1", "during-2"]
        await worker.finish()
        async with asyncio.timeout(60):
            await save_when_reachable(store, "after")
        assert await ids(store) == ["before", "during-0", "during-1", "during-2", "after"]


async def save_when_reachable(store: foldlog.Store, id_: str) -> None:
    """The same save until it is acked: every failure on the way must be of the declared kinds."""
    while True:
        try:
            await store.save_update(update(id_))
        except (foldlog.LogUnavailable, foldlog.AppendFailed, foldlog.AppendUnknown):
            continue
        return
