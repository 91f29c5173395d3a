from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.errors import ImportFailed, LogUnavailable
from foldlog.importer import (
    ImportProgress,
    ImportReport,
    demo_transcript,
    import_conversations,
    plan,
    read_conversations,
)
from foldlog.models import TaskStatus, UpdateType

REAL = Path(__file__).parents[3] / "shared" / "data" / "tau-bench-airline.jsonl"
HI = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]


@pytest.fixture
async def store() -> AsyncIterator[foldlog.Store]:
    async with foldlog.memory_store() as opened:
        yield opened


def write(path: Path, *items: object) -> Path:
    path.write_text("\n".join(json.dumps(item) for item in items))
    return path


class Watched:
    """A store seen from outside: it fails, waits or counts where a test wants it to."""

    def __init__(self, store: foldlog.Store) -> None:
        self.store = store
        self.calls: list[str] = []
        self.fail_after: int | None = None
        self.gate: asyncio.Event | None = None
        self.at_gate = asyncio.Semaphore(0)
        self.busy = self.busiest = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)

        async def watched(*args: Any, **keywords: Any) -> Any:
            self.calls.append(name)
            if name == "list_messages":
                self.busy += 1
                self.busiest = max(self.busiest, self.busy)
                if self.gate is not None:
                    self.at_gate.release()
                    await self.gate.wait()
            if name.startswith(("save", "append")) and self.fail_after is not None:
                self.fail_after -= 1
                if self.fail_after < 0:
                    raise LogUnavailable("gone")
            result = await method(*args, **keywords)
            if name == "save_task" and args[0].status is not TaskStatus.RUNNING:
                self.busy -= 1
            return result

        return watched

    @property
    def saves(self) -> list[str]:
        return [name for name in self.calls if name.startswith(("save", "append"))]


async def everything(store: foldlog.Store, trace_id: str) -> list[object]:
    return [
        await store.list_messages(trace_id),
        await store.list_steering(trace_id),
        await store.list_updates(trace_id),
        await store.list_tasks(trace_id),
        await store.get_trajectory(trace_id, trace_id),
    ]


def expected(path: Path, prefix: str = "") -> Iterator[tuple[str, list[object]]]:
    for item in read_conversations(path):
        wanted = plan(item, prefix=prefix)  # type: ignore[arg-type]
        *lists, [trajectory] = wanted.objects.values()
        yield wanted.trace_id, [*lists, trajectory]


async def test_the_demo_arrives_as_planned(store: foldlog.Store) -> None:
    report = await import_conversations(store, [demo_transcript()], prefix="demo/")
    assert report == ImportReport(
        conversations=6,
        messages=73,
        appended={"messages": 73, "steering": 14, "updates": 40, "tasks": 6, "trajectories": 6},
        present={"messages": 0, "steering": 0, "updates": 0, "tasks": 0, "trajectories": 0},
    )
    for trace_id, wanted in expected(demo_transcript(), "demo/"):
        assert await everything(store, trace_id) == wanted


async def test_importing_again_appends_nothing(store: foldlog.Store) -> None:
    first = await import_conversations(store, [demo_transcript()])
    watched = Watched(store)
    second = await import_conversations(watched, [demo_transcript()])
    assert watched.saves == []
    assert sum(second.appended.values()) == 0
    assert second.present == first.appended
    assert (second.conversations, second.messages) == (first.conversations, first.messages)


@pytest.mark.parametrize("saves", range(0, 15, 2))
async def test_an_import_that_was_cut_short_is_completed(
    store: foldlog.Store, tmp_path: Path, saves: int
) -> None:
    path = tmp_path / "one.jsonl"
    path.write_text(demo_transcript().read_text("utf-8").splitlines()[-1], "utf-8")
    watched = Watched(store)
    watched.fail_after = saves
    with pytest.raises(LogUnavailable):
        await import_conversations(watched, [path])
    tasks = await store.list_tasks("night-shift-0")
    assert all(task.status is TaskStatus.RUNNING for task in tasks)
    await import_conversations(store, [path])
    [(trace_id, wanted)] = expected(path)
    found = await everything(store, trace_id)
    # What failed midway is saved by the second run, after what came later in the first.
    assert sorted(found[2], key=lambda update: update.update_id) == sorted(  # type: ignore[call-overload]
        wanted[2], key=lambda update: update.update_id
    )
    assert found[0] == wanted[0]
    assert found[3:] == wanted[3:]


async def test_a_conversation_that_grew_gets_what_is_new(
    store: foldlog.Store, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", HI)
    await import_conversations(store, [path])
    write(path, [*HI, {"role": "user", "content": "more"}])
    report = await import_conversations(store, [path])
    assert report.appended == {
        "messages": 1,
        "steering": 1,
        "updates": 0,
        "tasks": 1,
        "trajectories": 1,
    }
    assert len(await store.list_messages("0")) == 3
    [task] = await store.list_tasks("0")
    assert task.updated_at.timestamp() == 2.0


async def test_a_trace_that_holds_another_conversation_is_left_alone(
    store: foldlog.Store, tmp_path: Path
) -> None:
    await import_conversations(store, [write(tmp_path / "a.jsonl", HI)])
    before = await everything(store, "0")
    other = write(tmp_path / "b.jsonl", [{"role": "user", "content": "other"}])
    watched = Watched(store)
    report = await import_conversations(watched, [other])
    assert [broken.number for broken in report.broken] == [1]
    assert "another conversation" in report.broken[0].reason
    assert (report.conversations, watched.saves) == (0, [])
    assert await everything(store, "0") == before
    again = await import_conversations(store, [other], prefix="b/")
    assert (again.conversations, again.broken) == (1, [])


async def test_items_without_ids_are_counted_through_all_files(
    store: foldlog.Store, tmp_path: Path
) -> None:
    first = write(tmp_path / "a.json", HI)
    second = write(tmp_path / "b.jsonl", "broken", HI)
    report = await import_conversations(store, [first, second], prefix="n")
    assert report.conversations == 2
    assert [len(await store.list_messages(name)) for name in ("n0", "n1", "n2")] == [2, 0, 2]


async def test_an_id_that_repeats_is_named(store: foldlog.Store, tmp_path: Path) -> None:
    item = {"messages": HI, "task_id": 1, "trial": 0}
    other = {"messages": HI[:1], "task_id": 1, "trial": 0}
    path = write(tmp_path / "a.jsonl", item, other)
    report = await import_conversations(store, [path])
    [broken] = report.broken
    assert broken.number == 2
    assert f"'1-0' was used before, at {path}:1" in broken.reason
    assert len(await store.list_messages("1-0")) == 2


async def test_what_the_store_cannot_hold_is_named_and_the_rest_goes_on(
    store: foldlog.Store, tmp_path: Path
) -> None:
    surrogate = [{"role": "user", "content": "\ud800"}]
    path = write(tmp_path / "a.jsonl", HI, surrogate, HI)
    report = await import_conversations(store, [path])
    assert report.conversations == 2
    [broken] = report.broken
    assert broken.number == 2
    assert "content" in broken.reason
    assert await everything(store, "1") == [[], [], [], [], None]


async def test_broken_items_are_reported_in_the_order_of_the_input(
    store: foldlog.Store, tmp_path: Path
) -> None:
    surrogate = [{"role": "user", "content": "\ud800"}]
    first = write(tmp_path / "b.jsonl", surrogate, 1, surrogate)
    second = write(tmp_path / "a.jsonl", 1, HI)
    report = await import_conversations(store, [first, second])
    assert [(Path(each.source).name, each.number) for each in report.broken] == [
        ("b.jsonl", 1),
        ("b.jsonl", 2),
        ("b.jsonl", 3),
        ("a.jsonl", 1),
    ]


async def test_nan_does_not_make_a_second_import_differ(
    store: foldlog.Store, tmp_path: Path
) -> None:
    nan = float("nan")
    item = {
        "messages": [
            {"role": "user", "content": "x", "score": nan},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"function": {"name": "f", "arguments": '{"x": NaN}'}}],
            },
        ],
        "reward": nan,
        "info": [nan],
    }
    path = write(tmp_path / "a.jsonl", item)
    await import_conversations(store, [path])
    assert sum((await import_conversations(store, [path])).appended.values()) == 0


async def test_more_updates_than_a_page_are_still_found(
    store: foldlog.Store, tmp_path: Path
) -> None:
    long = [{"role": "assistant", "content": str(n)} for n in range(1201)]
    path = write(tmp_path / "a.jsonl", long)
    await import_conversations(store, [path])
    assert sum((await import_conversations(store, [path])).appended.values()) == 0
    updates = await store.list_updates("0", limit=2000)
    assert [update.content["text"] for update in updates] == [str(n) for n in range(1201)]
    assert {update.update_type for update in updates} == {UpdateType.RESULT}


async def test_progress_ends_at_the_whole_input(store: foldlog.Store, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", HI, 1, HI)
    path.write_text("\n" + path.read_text() + "\n\n")
    seen: list[ImportProgress] = []
    await import_conversations(store, [path], on_progress=seen.append)
    assert [each.done for each in seen] == sorted(each.done for each in seen)
    assert seen[-1] == ImportProgress(
        done=path.stat().st_size, total=path.stat().st_size, conversations=2, broken=1
    )


async def test_only_so_many_conversations_are_under_way(
    store: foldlog.Store, tmp_path: Path
) -> None:
    watched = Watched(store)
    path = write(tmp_path / "a.jsonl", *[HI] * 12)
    await import_conversations(watched, [path], concurrency=3)
    assert watched.busiest == 3


async def test_cancelling_an_import_leaves_nothing_running(
    store: foldlog.Store, tmp_path: Path
) -> None:
    watched = Watched(store)
    watched.gate = asyncio.Event()
    before = asyncio.all_tasks()
    running = asyncio.create_task(
        import_conversations(watched, [write(tmp_path / "a.jsonl", *[HI] * 5)])
    )
    for _ in range(5):
        await watched.at_gate.acquire()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert asyncio.all_tasks() <= before


@pytest.mark.parametrize("content", [None, b""])
async def test_a_file_that_cannot_be_read_fails_as_itself(
    store: foldlog.Store, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ImportFailed, match=r"a\.json"):
        await import_conversations(store, [path])


async def test_a_file_that_cannot_be_read_is_left_out_as_a_whole(
    store: foldlog.Store, tmp_path: Path
) -> None:
    good, empty, none = write(tmp_path / "a.jsonl", HI), tmp_path / "b.json", tmp_path / "c.json"
    empty.write_bytes(b"")
    report = await import_conversations(store, [none, good, empty, good])
    assert report.conversations == 2
    assert list(map(str, report.broken)) == [
        f"{none}: No such file or directory",
        f"{empty}: holds no conversation",
    ]
    with pytest.raises(ImportFailed, match=r"c\.json"):
        await import_conversations(store, [none, empty])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
async def test_a_pipe_is_read_like_a_file(store: foldlog.Store, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    content = demo_transcript().read_bytes()
    seen: list[ImportProgress] = []
    writing = asyncio.create_task(asyncio.to_thread(pipe.write_bytes, content))
    await asyncio.sleep(0)  # the thread is started: opening the pipe waits for its other end
    report = await import_conversations(store, [pipe], on_progress=seen.append)
    await writing
    assert (report.conversations, report.broken) == (6, [])
    assert all(each.done <= each.total for each in seen)
    assert (seen[-1].done, seen[-1].total) == (len(content), len(content))


@pytest.mark.skipif(not REAL.exists(), reason=f"the real conversations are not at {REAL}")
async def test_real_conversations_come_back_equal_to_the_file(store: foldlog.Store) -> None:
    report = await import_conversations(store, [REAL])
    assert (report.conversations, report.messages, report.broken) == (150, 3984, [])
    assert report.appended == {
        "messages": 3984,
        "steering": 1094,
        "updates": 1899,
        "tasks": 150,
        "trajectories": 150,
    }
    with REAL.open(encoding="utf-8") as lines:
        for line in lines:
            item = json.loads(line)
            name = f"{item['task_id']}-{item['trial']}"
            history = await store.list_messages(name)
            assert [message.body for message in history] == item["traj"]
            [task] = await store.list_tasks(name)
            done = TaskStatus.COMPLETE if item["reward"] == 1.0 else TaskStatus.FAILED
            assert task.status is done
    assert sum((await import_conversations(store, [REAL])).appended.values()) == 0
