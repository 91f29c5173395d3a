"""What a case is, and the cases of the Store's own saves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NamedTuple

import foldlog
from foldlog import ArtifactScope
from foldlog_projections import memory, streams
from foldlog_projections.a2a import a2atasks
from foldlog_projections.a2a.a2atasks import Pushed, Saved
from foldlog_projections.agent_framework import workflowcheckpoints
from foldlog_projections.agent_framework.workflowcheckpoints import CheckpointSaved
from foldlog_projections.google_adk import adkstates
from foldlog_projections.google_adk.adkstates import StateChanged
from foldlog_projections.langgraph import langgraphitems
from foldlog_projections.langgraph.langgraphitems import Put
from foldlog_projections.memory import MemorySaved
from foldlog_projections.pydantic_ai import conversations
from foldlog_projections.streams import Appended, Closed
from tests.redaction.leaks import LEAKY, SECRET
from tests.support.build import binding, event, planner_event, steering, task, trajectory, update

Use = Callable[[foldlog.Store], Awaitable[object]]


async def nothing(store: foldlog.Store) -> None:
    """There is nothing to prepare."""


class Case(NamedTuple):
    """One way of handing a secret to a method that appends it.

    `kinds` are those that the hook is shown for it, `method` what an error names. Of one that
    `begins`, more is put on record than what the hook sees.
    """

    method: str
    kinds: set[str]
    save: Use
    prepare: Use = nothing
    begins: bool = False


def _case(
    method: str, kind: str, save: Callable[[foldlog.Store], Coroutine[Any, Any, Any]]
) -> Case:
    return Case(method, {kind}, save)


CASES: dict[str, Case] = {
    "Store.save_event": _case(
        "save_event", "event.saved", lambda s: s.save_event(event(payload=LEAKY))
    ),
    "Store.save_events": _case(
        "save_events",
        "event.saved",
        lambda s: s.save_events([event(payload=LEAKY), event("other", payload=LEAKY)]),
    ),
    "Store.save_remote_binding": _case(
        "save_remote_binding",
        "binding.saved",
        lambda s: s.save_remote_binding(binding(metadata=LEAKY)),
    ),
    "Store.save_feedback": _case(
        "save_feedback", "feedback.saved", lambda s: s.save_feedback("trace", comment=SECRET)
    ),
    "Store.save_planner_state": _case(
        "save_planner_state", "pause.saved", lambda s: s.save_planner_state("token", LEAKY)
    ),
    "Store.append_messages": _case(
        "append_messages",
        "message.added",
        lambda s: s.append_messages("session", [foldlog.Message("m", "plain", LEAKY)]),
    ),
    "Store.save_memory_state": _case(
        "save_memory_state", "memory.saved", lambda s: s.save_memory_state("key", LEAKY)
    ),
    "Store.save_task": _case(
        "save_task",
        "task.saved",
        lambda s: s.save_task(task(result=LEAKY, error=SECRET, description=SECRET, progress=LEAKY)),
    ),
    "Store.save_update": _case(
        "save_update", "update.saved", lambda s: s.save_update(update("u", content=LEAKY))
    ),
    "Store.append of what a stream is sent": _case(
        "append",
        "stream.appended",
        lambda s: s.append(streams.kind("session:a", "s"), Appended("1", SECRET, SECRET.encode())),
    ),
    "Store.append of what ends a stream": _case(
        "append",
        "stream.closed",
        lambda s: s.append(streams.kind("session:a", "s"), Closed(error=SECRET)),
    ),
    "Store.save_steering": _case(
        "save_steering", "steering.saved", lambda s: s.save_steering(steering("e", payload=LEAKY))
    ),
    "Store.save_trajectory": _case(
        "save_trajectory",
        "trajectory.saved",
        lambda s: s.save_trajectory("trace", "session", trajectory(SECRET)),
    ),
    "Store.save_planner_event": _case(
        "save_planner_event",
        "planner.saved",
        lambda s: s.save_planner_event(
            "trace", planner_event(thought=SECRET, error=SECRET, extra=LEAKY)
        ),
    ),
    "Store.append": _case(
        "append",
        "memory.saved",
        lambda s: s.append(memory.kind("key"), MemorySaved(LEAKY)),
    ),
    "Store.decide": _case(
        "decide",
        "memory.saved",
        lambda s: s.decide(memory.kind("key"), lambda state: [MemorySaved(LEAKY)]),
    ),
    "Store.append of a LangGraph item": _case(
        "append",
        "langgraph.put",
        lambda s: s.append(langgraphitems.kind("default", "a"), Put("k", LEAKY)),
    ),
    "Store.append of an ADK state": _case(
        "append",
        "adk.state_changed",
        lambda s: s.append(adkstates.kind("app", adkstates.APP), StateChanged(LEAKY)),
    ),
    "Store.append of a workflow's checkpoint": _case(
        "append",
        "workflow.checkpoint",
        lambda s: s.append(
            workflowcheckpoints.kind("session"), CheckpointSaved("c", "w", "2026-01-01", LEAKY)
        ),
    ),
    "Store.append of an A2A task": _case(
        "append",
        "agent_task.saved",
        lambda s: s.append(
            a2atasks.kind("a2a", "t"), Saved(1, "ann", "trip", "s", None, [0, LEAKY], LEAKY)
        ),
    ),
    "Store.append of where an A2A task is pushed": _case(
        "append",
        "agent_task.pushed",
        lambda s: s.append(a2atasks.kind("a2a", "t"), Pushed("ann", "c", LEAKY)),
    ),
    "Store.append of a conversation": _case(
        "append",
        "conversation.saved",
        lambda s: s.append(
            conversations.kind("trip"),
            conversations.Saved("r", "e", {}, LEAKY, None, (("e", None),), [LEAKY]),
        ),
    ),
    "Artifacts.put_bytes": _case(
        "put_bytes",
        "artifact.saved",
        lambda s: s.artifact_store.put_bytes(
            SECRET.encode(), filename=SECRET, meta=LEAKY, scope=ArtifactScope(session_id="session")
        ),
    ),
    "Artifacts.put_text": _case(
        "put_bytes", "artifact.saved", lambda s: s.artifact_store.put_text(SECRET, meta=LEAKY)
    ),
}
