"""Stored logs: a file of messages as a server held them, and one of what is read from them.

A log is a line of JSON a message: its subject, sequence and time, and its bytes in base64. Beside
it stands, as JSON, what a store must answer.

When a payload's version grows, or the record's format, write one more log with the version before:

    python -m tests.historic.stored tests/historic/<name>.jsonl
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import sys
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import foldlog
from foldlog.jsonable import jsonable
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Stored
from tests.support.build import (
    binding,
    event,
    planner_event,
    steering,
    task,
    trajectory,
    update,
)

HERE = Path(__file__).parent
AT = dt.datetime(2026, 1, 1, 12, 30, tzinfo=dt.UTC)
LONG_KEY = "a key that is hashed, " * 20


def logs() -> list[Path]:
    """Every stored log."""
    return sorted(HERE.glob("*.jsonl"))


def expected(path: Path) -> Any:
    """What is read from a stored log."""
    return json.loads(path.with_suffix(".expected.json").read_text("utf-8"))


def messages(path: Path) -> list[Stored]:
    """The messages of a stored log, in order."""
    found = []
    for line in path.read_text("utf-8").splitlines():
        each = json.loads(line)
        data = base64.b64decode(each["data"])
        found.append(Stored(each["subject"], each["seq"], each["time"], data))
    return found


def loaded(path: Path) -> MemoryLog:
    """A log in memory that holds what a stored one held."""
    return holding(messages(path))


def holding(stored: list[Stored]) -> MemoryLog:
    """A log in memory that holds these messages."""
    log = MemoryLog()
    for each in stored:
        subject = log.namespace.parse(each.subject) or log.namespace.subject("memory", LONG_KEY)
        assert subject.name == each.subject
        log._stored[subject].append(each)
        log._heads[0] = each.seq
    return log


async def answers(store: foldlog.Store) -> Any:
    """What is read of the scenario, as JSON has it. A pause, which would be consumed, is not."""
    read = {
        "load_history trace": await store.load_history("trace"),
        "load_history global": await store.load_history("__global__"),
        "list_updates": await store.list_updates("session"),
        "list_updates of a task": await store.list_updates("session", task_id="other"),
        "list_tasks": await store.list_tasks("session"),
        "list_steering": await store.list_steering("session"),
        "list_trace_bindings": await store.list_bindings(trace_id="trace"),
        "list_bindings": await store.list_bindings(router_session_id="router"),
        "list_planner_events": await store.list_planner_events("trace"),
        "list_traces": await store.list_traces("session"),
        "get_trajectory": await store.get_trajectory("trace", "session"),
        "load_memory_state": await store.load_memory_state("key"),
        "load_memory_state of a hashed key": await store.load_memory_state(LONG_KEY),
        "sessions": await store.sessions(),
        "cleared": await store.list_updates("gone"),
        "pause": jsonable((await store.view(foldlog.kinds.pauses("token"))).waiting.id[:41]),
    }
    return jsonable(read)


async def scenario(store: foldlog.Store) -> None:
    """One envelope of nearly every type, with values of every kind."""
    values = {
        "bytes": b"\x00\xff",
        "time": AT,
        "decimal": Decimal("1.50"),
        "uuid": uuid.UUID(int=7),
        "tuple": (1, [2, {"3": None}]),
        "set": {"a", "b"},
        "big": 2**100,
        "float": 0.1,
        "text": "zw\u00f6lf \U0001f642",
    }
    await store.save_event(event(payload=values))
    await store.save_events([event(ts=float(n), kind=f"kind-{n}") for n in range(5, 0, -1)])
    await store.save_event(event(None, kind="global"))
    await asyncio.gather(*(store.save_update(update(f"u{n}")) for n in range(4)))
    await store.save_update(update("u1"))
    await store.save_update(update("other", task_id="other", content=values))
    await store.save_task(task())
    await store.save_task(task("second"))
    await store.save_task(task(status=foldlog.TaskStatus.COMPLETE, result=values))
    await store.save_steering(steering("e1"))
    await store.save_remote_binding(binding(router_session_id="router"))
    await store.save_remote_binding(binding("ended", router_session_id="router"))
    await store.mark_binding_terminal(trace_id="trace", context_id="ctx", task_id="ended")
    await store.save_planner_event("trace", planner_event(extra=values))
    await store.save_trajectory("trace", "session", trajectory())
    await store.save_memory_state("key", {"n": 1})
    await store.save_memory_state("key", {"n": 2, **values})
    await store.save_memory_state(LONG_KEY, {"hashed": True})
    await store.save_planner_state("consumed", {"n": 1})
    await store.load_planner_state("consumed")
    await store.save_planner_state("token", values)
    await store.artifact_store.put_text("a text", scope=foldlog.ArtifactScope(session_id="session"))
    await store.save_update(update("u0", "gone"))
    await store.clear_session("gone")
    await store.save_update(update("u0", "gone"))


async def _record() -> tuple[list[str], str]:
    """The scenario as lines of a stored log, and what is read of it."""
    log = MemoryLog()
    async with foldlog.memory_store(log=log) as store:
        await scenario(store)
        stored = [each async for page in log.scan(0) for each in page]
        lines = [
            json.dumps(
                {
                    "subject": each.subject,
                    "seq": each.seq,
                    "time": each.time,
                    "data": base64.b64encode(each.data).decode(),
                }
            )
            for each in stored
        ]
        return lines, json.dumps(await answers(store), indent=1, sort_keys=True)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    recorded, read = asyncio.run(_record())
    path.write_text("\n".join(recorded) + "\n", "utf-8")
    path.with_suffix(".expected.json").write_text(read + "\n", "utf-8")
