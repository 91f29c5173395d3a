"""Whatever else is appended: decisions, endings, forks, what leads to other things."""

from __future__ import annotations

import asyncio

import pytest

from foldlog import ArtifactScope, Message, PayloadError, Store
from foldlog.integrations.access import access_to
from foldlog.integrations.langgraph.fencing import Holding
from foldlog.integrations.langgraph.forms import Place
from foldlog.integrations.rh_agents import ArtifactBackend, StateBackend
from foldlog.runs import Run, StepUnknown
from foldlog.scoped import MemoryLink, Scope
from foldlog.sessions import MergeStrategy, Session
from foldlog_projections import archive, streams
from foldlog_projections.a2a import a2alist
from foldlog_projections.a2a.a2alist import Listed, Unlisted
from foldlog_projections.agent_framework import workflowcheckpoints
from foldlog_projections.agent_framework.workflowcheckpoints import CheckpointDeleted
from foldlog_projections.langgraph import langgraphitems, langgraphnamespaces
from foldlog_projections.langgraph.langgraphitems import Deleted, Embedded, Swept, Touched
from foldlog_projections.langgraph.langgraphnamespaces import Added
from foldlog_projections.pydantic_ai import conversations
from foldlog_projections.runs import jobs, queues, runs, schedules
from foldlog_projections.scoped import scoped
from foldlog_projections.streams import ForkedTo, Gone, Opened
from tests.integrations.rh_agents.running import Steps
from tests.redaction.facades import Note, checkpoint, snapshot, threads
from tests.sessions.support import patch, running, steer
from tests.support.build import binding, task, update


async def everything_else(store: Store) -> None:
    """Have every type of envelope appended that has nothing for a hook. Holds no secret."""
    await _saves(store)
    await _scoped(store)
    await _langgraph(store)
    await store.append(conversations.kind("rest"), conversations.Deleted("r", "none"))
    await _workflows(store)
    await store.append(a2alist.kind("a2a", "@ann"), Listed("t", "c", "s"), Unlisted("t"))
    await _runs(store)
    await _workers(store)
    await _agents(store)
    async with await store.session("rest") as session:
        await _session(session)
    await _forks(store)
    await _threads(store)
    opened = Opened("i", "text/plain")
    others = (opened, ForkedTo("p"), streams.Touched(), Gone())
    await store.append(streams.kind("session:rest", "s"), *others)


async def _threads(store: Store) -> None:
    found, thread = threads(store), Place("rest", "", None)
    first = await found.put(thread, checkpoint("1"), {"run_id": "run"}, {})
    second = await found.put(first, checkpoint("2"), {}, {})
    await found.put(second, checkpoint("3"), {}, {})
    await found.delete_runs(["run"])
    await found.prune("rest")
    await found.copy("rest", "copy")
    async with Holding(access_to(store), "rest", "run", 30.0, False):
        pass


async def _saves(store: Store) -> None:
    await store.save_remote_binding(binding(router_session_id="router"))
    await store.mark_binding_terminal(trace_id="trace", context_id="ctx", task_id="task")
    await store.save_planner_state("taken", {"n": 1}, session_id="rest")
    assert await store.load_planner_state("taken")
    await store.append(archive.kind("0"), archive.ArchiveChanged())
    await store.append_messages("rest", [Message("m", "plain", 1)])
    await store.delete_messages("rest")
    kept = await store.artifact_store.put_text("a", scope=ArtifactScope(session_id="deleting"))
    assert await store.artifact_store.delete(kept.id)


async def _scoped(store: Store) -> None:
    scope = Scope.session("rest")
    version = await store.scoped.write(scope, "k", 1)
    vector = scoped.Embedded(version, "model", b"1234")
    await store.append(scoped.kind(scope.subject_key, "k"), vector)
    await store.scoped.link(scope, MemoryLink("k", "l", "to"))
    await store.scoped.unlink(scope, "k", "l", "to")
    await store.scoped.delete(scope, "k")


async def _langgraph(store: Store) -> None:
    await store.append(langgraphnamespaces.kind("default"), Added(("rest",)))
    items = langgraphitems.kind("default", "rest")
    await store.append(items, Touched("k"), Embedded("k", "", "", ()), Swept(0.0), Deleted("k"))


async def _workflows(store: Store) -> None:
    await store.append(workflowcheckpoints.kind("rest"), CheckpointDeleted("c"))


async def _workers(store: Store) -> None:
    shard = queues.kind("0")
    await store.append(shard, queues.Offered("p", 0), queues.Returned("s", "r", "p"))
    await store.append(shard, queues.Left("s", "r"), queues.Gone("p"), queues.Ticked())
    await store.append(shard, queues.Limited("q"), queues.Added("s", "r", "f", "q"))
    await store.append(schedules.kind("0"), schedules.Begun("n", 1.0), schedules.Unscheduled("n"))
    await store.append(runs.kind("rest", "sleeps"), jobs.Slept("step", 1.0))


async def _runs(store: Store) -> None:
    for redo_from in (None, "two"):
        async with store.run("rest", redo_from=redo_from) as run:
            await run.inbox()
            for name in ("one", "two"):
                await run.step(name, Steps().giving(name, name))
    with pytest.raises(asyncio.CancelledError):
        async with store.run("retracting") as run:
            await run.step("step", Steps().raising("step", asyncio.CancelledError()))
    for _ in range(2):
        with pytest.raises((StepUnknown, PayloadError)):
            await _two_steps(store)
        for item in await store.waiting(session_id="retracting"):
            await store.retract(item.id)
    states = StateBackend(store)
    await states.save_state(snapshot("gone"))
    assert await states.delete_state("gone")
    for artifact_id in ("one", "two"):
        await ArtifactBackend(store).save_artifact(artifact_id, b"the same")
    assert await ArtifactBackend(store).delete_artifact("two")


async def _two_steps(store: Store) -> None:
    async with store.run("retracting") as run:
        await run.step("step", using, run)
        await run.step("unrecorded", Steps().giving("unrecorded", object()))


async def using(run: Run) -> None:
    """A step that uses a model."""
    run.usage(model="m", input_tokens=1)


async def _agents(store: Store) -> None:
    async with store.agents.turn("agent/rest") as ctx:
        ctx.update("note", Note())
        token = ctx.share("note")
    await store.agents.revoke(token)
    await store.agents.erase("agent/rest")


async def _session(session: Session) -> None:
    group = await session.create_group("group", group_id="g")
    await running(session, "task", group_id=group.group_id)
    event = steer("USER_MESSAGE", session_id="rest", text="hello")
    assert await session.steer(event)
    assert await session.acknowledge(event)
    waits = MergeStrategy.HUMAN_GATED
    assert await session.apply_context_patch(patch=patch(), strategy=waits, patch_id="p")
    assert await session.reject_pending_patch("p")
    await session.seal_group("g")
    await session.complete_task("task", 1)


async def _forks(store: Store) -> None:
    await store.save_task(task(session_id="origin"))
    await store.save_update(update("u", "origin"))
    await store.fork("origin", to="stays")
    await store.fork("origin", to="goes")
    await store.clear_session("goes")
    await store.save_update(update("u", "cleared"))
    await store.clear_session("cleared")
