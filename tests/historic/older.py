"""A store with a view of every kind, as the last version without `foldlog.format` wrote it.

Beside this file lie `older-log.jsonl.gz`, a backup of it, and `older-log.expected.json`, what that
version answered. They were made with the sources of commit 76a569d on the path, in this directory's
repository:

    PYTHONPATH=<76a569d>/src:<76a569d>/projections python -m tests.historic.older

A later version that changes the log's format writes its own pair: copy `write`, extend it by the
kinds that have come, and run it before the change.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from pydantic import BaseModel

import foldlog
from foldlog import codec, exporting
from foldlog.agents import ShareToken
from foldlog.envelope import draft
from foldlog.integrations.langgraph.forms import Forms, Place
from foldlog.integrations.langgraph.threads import Threads
from foldlog.integrations.rh_agents import (
    StateBackend,
    StateMetadata,
    StateSnapshot,
    StateStatus,
)
from foldlog.jsonable import jsonable
from foldlog.log.port import Append
from foldlog.models import ArtifactRetentionConfig
from foldlog.runs import RunPaused
from foldlog.scoped import MemoryLink, Scope
from foldlog.sessions import ContextPatch, MergeStrategy
from foldlog_projections.a2a import a2alist, a2atasks
from foldlog_projections.agent_framework import workflowcheckpoints
from foldlog_projections.google_adk import adkstates
from foldlog_projections.langgraph import langgraphitems, langgraphnamespaces
from foldlog_projections.pydantic_ai import conversations
from tests.support.build import (
    MOMENT,
    binding,
    event,
    planner_event,
    steering,
    task,
    trajectory,
    update,
)

HERE = Path(__file__).parent
BACKUP = HERE / "older-log.jsonl.gz"
EXPECTED = HERE / "older-log.expected.json"

SHARED = b"the same in two sessions " * 40
LARGE = "a large value; " * 20_000
LASTING: dict[str, Any] = {
    "pause_ttl": 1e9,
    "retention": ArtifactRetentionConfig(ttl_seconds=0),
}
"""Options of a store whose pauses and artifacts are still there whenever the backup is read."""

OWN = ("ann", "ben", "fork")
"""Sessions that hold something."""

CLEARED = "gone"
"""A session that was cleared, and then written to again."""

SAVED_AGAIN = "gone, and saved again"
"""A session that was cleared, and then given an update that it had before.

Its writer knew of the clearing. That version acked the update, and showed it to nobody.
"""


class Note(BaseModel):
    text: str = ""


class Plain:
    """A serialiser that every program has."""

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        return "msgpack", codec.encode(value)

    def loads_typed(self, typed: tuple[str, bytes]) -> Any:
        return codec.decode(typed[1])


def threads(store: foldlog.Store) -> Threads:
    """LangGraph's threads in a store, without LangGraph."""
    return Threads(store, Forms(Plain()))


# --- writing --------------------------------------------------------------------------------------


async def write(store: foldlog.Store, other: foldlog.Store) -> None:
    """Write views of every kind; `other` is of the same namespace, and has no view in memory."""
    for session in ("ann", "ben"):
        await _save_all(store, session)
        await _execute(store, session)
        await _artifacts(store, session)
        await _scoped(store, session)
        await _manage(store, session)
    await store.artifact_store.put_text("of no session")
    await StateBackend(store).artifacts.save_artifact("report", {"pages": 7, "text": "z" * 500})
    await StateBackend(store).artifacts.save_artifact("replaced", b"first " * 9)
    await StateBackend(store).artifacts.save_artifact("replaced", b"second " * 9)
    await store.scoped.write(Scope.custom("shelf"), "book", LARGE)
    await _agents(store)
    await _frameworks(store)
    await _clear(store, other)
    then = await store.position()
    await store.save_memory_state("then", {"position": str(then)})
    await store.save_update(update("after the fork", "ann"))
    await store.fork("ann", at=then, to="fork")
    await store.save_update(update("of the fork", "fork"))
    await store.save_memory_state("acme:ada:fork", {"of": "the fork"})
    await store.save_task(task("of the fork", "fork"))


async def _save_all(store: foldlog.Store, session: str) -> None:
    trace = f"trace {session}"
    for n in range(4):
        await store.save_update(update(f"u{n}", session, content={"n": n, "bytes": b"\x00\xff"}))
    await store.save_task(task("t1", session))
    await store.save_task(task("t1", session, status=foldlog.TaskStatus.COMPLETE, result={"n": 1}))
    await store.save_task(task("t2", session))
    await store.save_steering(steering("e1", session))
    await store.save_events([event(trace, ts=float(n), payload={"n": n}) for n in range(3)])
    await store.save_event(event(None, kind="global"))
    await store.save_remote_binding(binding(trace_id=trace, router_session_id=session))
    await store.save_planner_event(trace, planner_event(thought="hm"))
    await store.save_trajectory(trace, session, trajectory(f"what does {session} want?"))
    await store.save_feedback(trace, score=0.5, comment="so so", author="eve")
    await store.save_memory_state(f"acme:ada:{session}", {"n": 1})
    await store.save_memory_state(f"acme:ada:{session}", {"n": 2, "of": session})
    messages = [foldlog.Message(f"m{n}", "plain", {"text": f"{session} {n}"}) for n in range(3)]
    await store.append_messages(session, messages)
    await store.append_messages(session, messages[:1], conversation="aside")
    await store.save_planner_state(f"token {session}", {"step": 3}, session_id=session)
    await store.save_planner_state(f"taken {session}", {"step": 4}, session_id=session)
    assert await store.load_planner_state(f"taken {session}")


async def _execute(store: foldlog.Store, session: str) -> None:
    async def large() -> str:
        return LARGE

    async def small() -> dict[str, int]:
        return {"n": 1}

    async with StateBackend(store).execution(f"run {session}", session_id=session) as run:
        await run.step("large", large)
        await run.step("small", small)
        await run.put_artifact("picture", bytes(range(256)) * 8)
        run.storage["seen"] = session
    try:
        async with StateBackend(store).execution(f"asks {session}", session_id=session) as run:
            await run.ask("question", {"buy": session})
    except RunPaused:
        pass
    snapshot = StateSnapshot(
        state_id=f"saved {session}",
        created_at=MOMENT.isoformat(),
        updated_at=MOMENT.isoformat(),
        status=StateStatus.PAUSED,
        metadata=StateMetadata(tags=["a", "b"], description="saved whole"),
        execution_state={"storage": {"data": {"of": session}}},
    )
    await StateBackend(store).save_state(snapshot, session_id=session)


async def _artifacts(store: foldlog.Store, session: str) -> None:
    scope = foldlog.ArtifactScope(session_id=session, trace_id=f"trace {session}")
    ref = await store.artifact_store.put_bytes(
        SHARED, scope=scope, filename="shared", meta={"n": 1}
    )
    await store.artifact_store.put_text(f"only {session}'s", scope=scope)
    gone = await store.artifact_store.put_text(f"deleted by {session}", scope=scope)
    assert await store.artifact_store.delete(gone.id)
    # Whoever tells of an artifact names its content, too.
    await store.save_update(update("artifact", session, content={"ref": jsonable(ref)}))


async def _scoped(store: foldlog.Store, session: str) -> None:
    scope = Scope.session(session)
    await store.scoped.write(scope, "large", "overwritten " + LARGE)
    await store.scoped.write(scope, "large", LARGE)
    await store.scoped.write(scope, "small", {"of": session})
    await store.scoped.write(scope, "deleted", 1)
    await store.scoped.delete(scope, "deleted")
    await store.scoped.link(scope, MemoryLink("small", "large", "leads to", {"why": "test"}))


async def _manage(store: foldlog.Store, session: str) -> None:
    async with await store.session(session) as managed:
        group = await managed.create_group("about", group_id="g")
        await managed.spawn_task(task_id="in a group", group_id=group.group_id)
        await managed.spawn_task(task_id="paused", description="waits")
        await managed.start_task("paused")
        await managed.pause_task("paused", reason="a break")
        await managed.update_context(llm_context={"mood": "good"})
        patch = ContextPatch(task_id="t1", digest=["done"], facts={"by": "t1"})
        await managed.apply_context_patch(
            patch=patch, strategy=MergeStrategy.HUMAN_GATED, patch_id="patch"
        )


async def _agents(store: foldlog.Store) -> None:
    async with store.agents.turn("agent/owner", label="first") as ctx:
        ctx.update("note", Note(text="one"))
        token = ctx.share("note", writable=True)
    async with store.agents.turn("agent/reader") as ctx:
        ctx.update(token, Note(text="two"))
        ctx.update("own", Note(text="three"))
    await store.save_memory_state("token", {"token": str(token)})


async def _frameworks(store: foldlog.Store) -> None:
    saver, thread = threads(store), Place("ann", "", None)
    for n in range(3):
        checkpoint = {
            "id": f"c{n}",
            "channel_values": {"messages": [f"m{i}" for i in range(n + 1)]},
            "channel_versions": {"messages": n + 1},
            "versions_seen": {"node": {"messages": n}},
        }
        thread = await saver.put(thread, checkpoint, {"step": n}, {"messages": n + 1})
    await saver.put_writes(thread, [(0, "messages", "next")], "task", "")
    await store.append(langgraphnamespaces.kind("default"), langgraphnamespaces.Added(("a", "b")))
    await store.append(langgraphitems.kind("default", "a/b"), langgraphitems.Put("k", {"n": 1}))
    await store.append(adkstates.kind("app", adkstates.APP), adkstates.StateChanged({"n": 1}))
    await store.append(
        adkstates.kind("app", adkstates.of_user("ann")), adkstates.StateChanged({"n": 2})
    )
    body = {"id": "c", "n": 1}
    saved = workflowcheckpoints.CheckpointSaved("c", "flow", MOMENT.isoformat(), body)
    await store.append(workflowcheckpoints.kind("ann"), saved)
    key = a2atasks.kind("a2a", "job")
    await store.append(key, a2atasks.Saved(1, "ann", "trip", "working", 5, [0, {"id": "job"}], 1))
    await store.append(key, a2atasks.Pushed("ann", "config", {"url": "http://ann"}))
    await store.append(a2alist.kind("a2a", "ann"), a2alist.Listed("job", "trip", "working", 5))
    entries = (("entry 1", None), ("entry 2", "entry 1"))
    spoken = conversations.Saved(
        "r1", "entry 2", {"id": "talk"}, {"title": "talk"}, None, entries, [{"n": 1}, {"n": 2}]
    )
    await store.append(conversations.kind("ann"), spoken)


async def _clear(store: foldlog.Store, other: foldlog.Store) -> None:
    """Sessions that were cleared, with what came afterwards."""
    for session in (CLEARED, SAVED_AGAIN):
        for n in range(3):
            await store.save_update(update(f"u{n}", session))
        await store.save_memory_state(f"acme:ada:{session}", {"of": "before"})
        await store.artifact_store.put_text(
            "cleared", scope=foldlog.ArtifactScope(session_id=session)
        )
        await store.clear_session(session)
    await store.save_update(update("new", CLEARED))
    await append_late(store, "u1")
    await other.save_memory_state("other", {"knows": "all before this"})
    await other.save_update(update("u0", SAVED_AGAIN))
    await store.clear_session("never there")


async def append_late(store: foldlog.Store, update_id: str) -> None:
    """Append an update as a writer does that does not know that the session was cleared."""
    payload = {
        "session_id": CLEARED,
        "task_id": "task",
        "update_id": update_id,
        "update_type": "PROGRESS",
        "content": {"late": True},
        "created_at": MOMENT.isoformat(),
    }
    subject = store._core.log.namespace.subject("updates", CLEARED)
    late = draft("update.saved", codec.encode(payload), id=update_id)
    await store._core.log.append([Append(subject, (late,))])


# --- reading --------------------------------------------------------------------------------------


async def answers(store: foldlog.Store) -> Any:
    """What public reads say, as JSON has it; the log's own times are left out."""
    read: dict[str, Any] = {
        "sessions": await store.sessions(),
        "waiting": sorted(map(_waiting, await store.waiting()), key=str),
        "cleared": await store.list_updates(CLEARED),
        "cleared and saved again": await store.list_updates(SAVED_AGAIN),
        "memory of what was cleared": await store.load_memory_state(f"acme:ada:{CLEARED}"),
        "then": [each.update_id for each in await _at_the_fork(store)],
        "global history": await store.load_history("__global__"),
    }
    for session in OWN:
        read[session] = await _of_session(store, session)
    for session in ("ann", "ben"):
        read[f"more of {session}"] = await _more_of(store, session)
    read["artifacts"] = await _artifacts_of(store)
    read["executions"] = await _executions_of(store)
    read["agents"] = await _agents_of(store)
    read["frameworks"] = await _frameworks_of(store)
    return json.loads(json.dumps(jsonable(read)))


async def _at_the_fork(store: foldlog.Store) -> list[foldlog.StateUpdate]:
    saved = await store.load_memory_state("then")
    assert saved is not None
    return await store.at(foldlog.LogPosition.parse(saved["position"])).list_updates("ann")


async def _of_session(store: foldlog.Store, session: str) -> Any:
    return {
        "tasks": await store.list_tasks(session),
        "updates": await store.list_updates(session),
        "updates after": await store.list_updates(session, since_id="u1"),
        "steering": await store.list_steering(session),
        "traces": await store.list_traces(session),
        "trajectory": await store.get_trajectory("trace ann", session),
        "messages": await store.list_messages(session),
        "aside": await store.list_messages(session, conversation="aside"),
        "memory": await store.load_memory_state(f"acme:ada:{session}"),
        "scoped": await _scoped_of(store, Scope.session(session)),
    }


async def _more_of(store: foldlog.Store, session: str) -> Any:
    trace = f"trace {session}"
    async with await store.session(session) as managed:
        state = await managed.refresh()
        about = [state.context, state.pending_patches, state.groups, state.foreground_task_id]
    return {
        "history": await store.load_history(trace),
        "events of the planner": await store.list_planner_events(trace),
        "trajectory": await store.get_trajectory(trace, session),
        "bindings": await store.list_bindings(trace_id=trace),
        "bindings of the router": await store.list_bindings(router_session_id=session),
        "feedback": [(e.score, e.comment, e.author) for e in await store.list_feedback(trace)],
        "pause": (await store.view(foldlog.kinds.pauses(f"token {session}"))).waiting is not None,
        "managed": about,
    }


async def _scoped_of(store: foldlog.Store, scope: Scope) -> Any:
    keys = await store.scoped.list(scope)
    revisions = {key: await store.scoped.history(scope, key) for key in ("large", "small")}
    return {
        "keys": keys,
        "values": {key: by_hash(await store.scoped.read(scope, key)) for key in sorted(keys)},
        "histories": {
            key: [(by_hash(each.value), each.version) for each in found]
            for key, found in revisions.items()
        },
        "links": await store.scoped.links(scope, "small"),
    }


async def _artifacts_of(store: foldlog.Store) -> Any:
    found = {}
    for ref in await store.artifact_store.list():
        found[ref.id] = [jsonable(ref), by_hash(await store.artifact_store.get(ref.id))]
    lists = {
        session: [
            ref.id
            for ref in await store.artifact_store.list(
                scope=foldlog.ArtifactScope(session_id=session)
            )
        ]
        for session in (*OWN, CLEARED)
    }
    shared = [
        by_hash(await store.artifact_store.get_with_session_check(each, "fork"))
        for each in lists["fork"]
    ]
    backend = StateBackend(store).artifacts
    named = {
        each: [by_hash(await backend.load_artifact(each)), await backend.get_size(each)]
        for each in await backend.list_artifacts()
    }
    return {"all": found, "by session": lists, "of the fork": shared, "of states": named}


async def _executions_of(store: foldlog.Store) -> Any:
    found = {}
    for each in await StateBackend(store).list_states():
        found[each.state_id] = [jsonable(each), await StateBackend(store).exists(each.state_id)]
    return found


async def results(store: foldlog.Store) -> Any:
    """What executions have recorded, by opening them again, which writes that they were opened."""
    found = {}
    for session in ("ann", "ben"):
        async with StateBackend(store).execution(f"run {session}", session_id=session) as run:
            found[session] = [
                by_hash(await run.step("large", _never)),
                by_hash(await run.step("small", _never)),
                by_hash(await run.get_artifact("picture")),
                run.storage["seen"],
            ]
    return found


async def _never() -> None:
    raise AssertionError("the step is on record")


async def _agents_of(store: foldlog.Store) -> Any:
    saved = await store.load_memory_state("token")
    assert saved is not None
    shared = await store.agents.get_agent_state("agent/reader", ShareToken(saved["token"]), Note)
    assert shared is not None
    found = {"scopes": await store.agents.scopes(), "by token": shared.state}
    for scope in ("agent/owner", "agent/reader"):
        states = await store.agents.get_agent_states(scope, Note)
        found[scope] = {key: (each.version, each.state) for key, each in states.items()}
        found[f"history of {scope}"] = [
            (each.version, each.label) for each in await store.agents.history(scope)
        ]
    return found


async def _frameworks_of(store: foldlog.Store) -> Any:
    rows = await threads(store).rows(Place("ann", "", None).config, None, None, None)
    items = await store.view(langgraphitems.kind("default", "a/b"))
    talk = await store.view(conversations.kind("ann"))
    return {
        "checkpoints": [
            (row.checkpoint, {name: body.data for name, body in row.values.items()}, row.writes)
            for _, row in rows
        ],
        "items": {key: codec.decode(each.value) for key, each in items.items()},
        "namespaces": await store.view(langgraphnamespaces.kind("default")),
        "app": await store.view(adkstates.kind("app", adkstates.APP)),
        "user": await store.view(adkstates.kind("app", adkstates.of_user("ann"))),
        "a2a task": (await store.view(a2atasks.kind("a2a", "job"))).body,
        "a2a list": await store.view(a2alist.kind("a2a", "ann")),
        "workflows": [e.record for e in await store.items(workflowcheckpoints.kind("ann"))],
        "conversation": conversations.kind.keep(talk),
    }


def _waiting(each: foldlog.Waiting) -> Any:
    return [each.kind, each.session_id, each.task_id, each.state_id, jsonable(each.asked)]


def by_hash(value: Any) -> Any:
    """A value; a long one by its SHA-256 alone."""
    encoded = codec.encode(value)
    return hashlib.sha256(encoded).hexdigest() if len(encoded) > 200 else jsonable(value)


async def _main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log"
        async with foldlog.connect(path=path, **LASTING) as store:
            async with foldlog.connect(path=path, **LASTING) as other:
                await write(store, other)
            await exporting.export(store, BACKUP)
            read = {"answers": await answers(store), "results": await results(store)}
    text = json.dumps(read, indent=1, sort_keys=True)
    await asyncio.to_thread(EXPECTED.write_text, text + "\n", "utf-8")


if __name__ == "__main__":
    asyncio.run(_main())
