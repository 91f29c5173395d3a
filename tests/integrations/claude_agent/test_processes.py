"""One session in several processes, one of them killed."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

import foldlog
from foldlog.integrations.claude_agent import FoldlogSessionStore, session_of
from tests.support.workers import PATIENCE, StartWorker

KEY = {"project_key": "acme", "session_id": "shared"}


@pytest.fixture(autouse=True)
def _no_claude_of_the_developers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))


async def test_a_killed_session_goes_on_elsewhere_and_is_followed_from_a_third_process(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    first = await start_worker("begin")
    key = await first.hear()
    seen: list[str] = []

    async def follow() -> None:
        view = foldlog.kinds.messages(session_of(key))
        async with aclosing(store.watch(view)) as items:
            async for item in items:
                seen.append(item.record.id)
                if item.record.body["message"].get("content") == "By train":
                    return

    following = asyncio.create_task(follow())
    while await first.hear() < 5:
        pass
    await first.kill()

    sessions = FoldlogSessionStore(store)
    left = await sessions.load(key)
    assert left is not None
    users = sum(each["type"] == "user" for each in left)
    second = await start_worker("resume")
    second.tell(key["session_id"])
    assert await second.hear() == f"I was told {users + 1} things, at last: By train"
    await second.finish()
    async with asyncio.timeout(PATIENCE):
        await following

    loaded = await sessions.load(key)
    assert loaded is not None
    ids = [each["uuid"] for each in loaded]
    assert ids[: len(left)] == [each["uuid"] for each in left]
    assert seen == ids[:-1]  # the answer came behind what the follower waited for
    # All or nothing: each group of three is whole, the one included in which it was killed.
    groups = [ids[start : start + 3] for start in range(2, len(left), 3)]
    assert groups == [[f"{n} {part}" for part in range(3)] for n in range(len(groups))]
    assert len(groups) >= 6


async def test_two_processes_on_one_session_lose_and_double_nothing(
    store: foldlog.Store, start_worker: StartWorker
) -> None:
    writers = [await start_worker("add") for _ in range(2)]
    for each in writers:
        assert await each.hear() == "ready"
    for name, each in zip("ab", writers, strict=True):
        each.tell(name)
    for each in writers:
        assert await each.hear() == "added"
    loaded = await FoldlogSessionStore(store).load(KEY)
    assert loaded is not None
    ids = [each["uuid"] for each in loaded]
    for name in ("a", "b", "all"):
        mine = [each for each in ids if each.startswith(f"{name} ")]
        assert mine == [f"{name} {number}" for number in range(10)]
    assert len(ids) == 30
