"""Recorded conversations, from file to log and back: after a kill, and after a rebuild."""

from __future__ import annotations

import itertools
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import ArtifactScope, TaskStatus, TaskType
from foldlog.importer import import_conversations
from tests.support.stores import appended

DATA = Path(__file__).resolve().parents[3] / "shared/data/tau-bench-airline.jsonl"

pytestmark = pytest.mark.skipif(not DATA.exists(), reason=f"{DATA.name} is not at hand")

Conversations = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def conversations() -> Conversations:
    """What the file holds, by the session id it is to have."""
    with DATA.open(encoding="utf-8") as lines:
        items = [json.loads(line) for line in lines]
    found = {f"air-{item['task_id']}-{item['trial']}": item for item in items}
    assert len(found) == len(items) == 150
    assert sum(len(item["traj"]) for item in items) == 3_984
    return found


def first(count: int, conversations: Conversations, file: Path) -> Conversations:
    """The first so many, which `file` holds as well."""
    file.write_bytes(b"".join(DATA.read_bytes().splitlines(keepends=True)[:count]))
    return dict(itertools.islice(conversations.items(), count))


async def check(store: foldlog.Store, conversations: Conversations) -> None:
    assert sorted(await store.sessions()) == sorted(conversations)
    for name, item in conversations.items():
        messages = await store.list_messages(name)
        assert [each.body for each in messages] == item["traj"]
        assert [each.role for each in messages] == [m["role"] for m in item["traj"]]

        users = [m for m in item["traj"] if m["role"] == "user"]
        steering = await store.list_steering(name)
        assert {event.event_type for event in steering} <= {foldlog.SteeringEventType.USER_MESSAGE}
        assert len(steering) == len(users)

        calls = sum(len(m.get("tool_calls") or ()) for m in item["traj"])
        texts = sum(m["role"] == "assistant" and bool(m.get("content")) for m in item["traj"])
        kinds = [u.update_type for u in await store.list_updates(name, limit=10_000)]
        assert kinds.count(foldlog.UpdateType.TOOL_CALL) == calls
        assert kinds.count(foldlog.UpdateType.RESULT) == texts

        [task] = await store.list_tasks(name)
        assert task.task_type is TaskType.FOREGROUND
        assert task.status is (TaskStatus.COMPLETE if item["reward"] > 0 else TaskStatus.FAILED)
        assert await store.list_traces(name) == [name]
        assert await store.get_trajectory(name, name) is not None
    assert await store.artifact_store.list(scope=ArtifactScope()) == []


@pytest.mark.parametrize("count", [15, pytest.param(150, marks=pytest.mark.long)])
async def test_conversations_survive_a_kill_and_a_rebuild(
    tmp_path: Path, conversations: Conversations, count: int
) -> None:
    path, file = tmp_path / "data", tmp_path / "conversations.jsonl"
    conversations = first(count, conversations, file)
    messages = sum(len(item["traj"]) for item in conversations.values())
    store = await foldlog.connect(path=path)
    report = await import_conversations(store, [file], prefix="air-")
    assert (report.conversations, report.messages, report.broken) == (count, messages, [])
    await check(store, conversations)

    embedded = (await store.health()).embedded
    assert embedded is not None
    os.kill(embedded.pid, signal.SIGKILL)
    await store.close()

    async with foldlog.connect(path=path) as again:
        await check(again, conversations)
        rebuilt = await again.rebuild()
        assert rebuilt.differing == ()
        assert rebuilt.envelopes >= messages
        await check(again, conversations)

        before = await appended(again)
        report = await import_conversations(again, [file], prefix="air-")
        assert report.broken == []
        assert await appended(again) == before
        await check(again, conversations)


@pytest.mark.long
async def test_an_import_that_was_cut_short_is_completed_by_the_next(
    tmp_path: Path, conversations: Conversations
) -> None:
    path = tmp_path / "data"
    store = await foldlog.connect(path=path)
    embedded = (await store.health()).embedded
    assert embedded is not None

    def kill_in_the_middle(progress: Any) -> None:
        if progress.conversations == 40:
            os.kill(embedded.pid, signal.SIGKILL)

    try:
        await import_conversations(store, [DATA], prefix="air-", on_progress=kill_in_the_middle)
    except foldlog.FoldlogError:
        cut_short = True
    else:
        cut_short = False  # the store brought its server back by itself
    await store.close()

    async with foldlog.connect(path=path) as again:
        if cut_short:
            assert len(await again.sessions()) >= 40
        await import_conversations(again, [DATA], prefix="air-")
        await check(again, conversations)
