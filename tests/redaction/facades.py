"""The cases of runs, agents' states, scoped state and sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel

import foldlog
from foldlog import codec
from foldlog.agents import AgentStateEntry, TurnStateContext
from foldlog.integrations.langgraph.forms import Forms, Place
from foldlog.integrations.langgraph.threads import Threads
from foldlog.integrations.rh_agents import (
    ArtifactBackend,
    Execution,
    StateBackend,
    StateMetadata,
    StateSnapshot,
    StateStatus,
)
from foldlog.runs import Run, RunPaused, StepUnknown
from foldlog.scoped import Effect, MemoryLink, Scope, StoreOptions
from foldlog.sessions import (
    ContextPatch,
    ConversationTurn,
    MemoryBudget,
    MergeStrategy,
    Session,
    ShortTermMemoryConfig,
)
from tests.integrations.rh_agents.running import Steps
from tests.redaction.leaks import LEAKY, SECRET
from tests.redaction.saves import Case, Use
from tests.sessions.support import running, steer

SCOPE = Scope.session("scope")
LARGE = {"pad": "x" * 300_000, "text": SECRET}


class Note(BaseModel):
    text: str = ""


# --- scoped state -------------------------------------------------------------------------------

_LINK = MemoryLink("a", "b", "leads to", LEAKY)
SCOPED: dict[str, Case] = {
    "ScopedStore.write": Case(
        "ScopedStore.write", {"scoped.written"}, lambda s: s.scoped.write(SCOPE, "k", LEAKY)
    ),
    "ScopedStore.write of a large value": Case(
        "ScopedStore.write", {"scoped.written"}, lambda s: s.scoped.write(SCOPE, "large", LARGE)
    ),
    "ScopedStore.write of a value with hints": Case(
        "ScopedStore.write",
        {"scoped.written"},
        lambda s: s.scoped.write(SCOPE, "k", LEAKY, StoreOptions(salience=1.0)),
    ),
    "ScopedStore.write_many": Case(
        "ScopedStore.write_many",
        {"scoped.written"},
        lambda s: s.scoped.write_many(SCOPE, {"m": LEAKY, "n": SECRET}),
    ),
    "ScopedStore.apply": Case(
        "ScopedStore.apply",
        {"scoped.written", "scoped.linked"},
        lambda s: s.scoped.apply(
            [Effect.WriteMemory(SCOPE, "k", LEAKY), Effect.LinkMemory(SCOPE, _LINK)]
        ),
    ),
    "ScopedStore.link": Case(
        "ScopedStore.link", {"scoped.linked"}, lambda s: s.scoped.link(SCOPE, _LINK)
    ),
}


# --- runs, and state backends on them -----------------------------------------------------------


def snapshot(state_id: str = "state", **metadata: Any) -> StateSnapshot:
    return StateSnapshot(
        state_id=state_id,
        created_at="2024-05-15T15:00:00+00:00",
        updated_at="2024-05-15T15:00:00+00:00",
        status=StateStatus.PAUSED,
        metadata=StateMetadata(**metadata),
        execution_state={"storage": {"data": LEAKY if metadata else {}}},
    )


_LEAKY_SNAPSHOT = snapshot(tags=[SECRET, "tag"], description=SECRET, custom=LEAKY)


def _run(use: Callable[[Run], Awaitable[object]]) -> Use:
    async def save(store: foldlog.Store) -> None:
        async with store.run("run") as run:
            await use(run)

    return save


def _execution(use: Callable[[Execution], Awaitable[object]], **options: Any) -> Use:
    async def save(store: foldlog.Store) -> None:
        async with StateBackend(store).execution("execution", **options) as execution:
            await use(execution)

    return save


def _giving(name: str, result: Any) -> Callable[[Run], Awaitable[object]]:
    return lambda run: run.step(name, Steps().giving(name, result))


async def _raising(store: foldlog.Store) -> None:
    with pytest.raises(LookupError):
        async with store.run("raising") as run:
            await run.step("raises", Steps().raising("raises", LookupError(f"no {SECRET}")))


async def _asking(store: foldlog.Store, question: Any = LEAKY, run: str = "asking") -> None:
    with pytest.raises(RunPaused):
        async with store.run(run) as opened:
            await opened.ask("question", question, wait=0)


async def _executing_what_asks(store: foldlog.Store) -> None:
    with pytest.raises(RunPaused):
        async with StateBackend(store).execution("asking") as execution:
            await execution.ask("question", LEAKY)


@foldlog.durable(name="leaks")
async def _leaking(run: Run, value: Any = None) -> Any:
    return LEAKY


async def _sending(store: foldlog.Store) -> None:
    await store.queues.handle("sent").send("event", LEAKY)


async def _answering(store: foldlog.Store) -> None:
    [item] = await store.waiting(session_id="asked")
    await store.answer(item.id, LEAKY)


async def _dying(store: foldlog.Store) -> None:
    with pytest.raises(asyncio.CancelledError):
        async with store.run("died") as run:
            await run.step("step", Steps().raising("step", asyncio.CancelledError()))
    with pytest.raises(StepUnknown):
        async with store.run("died") as run:
            await run.step("step", Steps().giving("step", 1))


async def _confirming(store: foldlog.Store) -> None:
    [item] = await store.waiting(session_id="died")
    await store.confirm(item.id, LEAKY)


async def _storing(execution: Execution) -> None:
    execution.storage["seen"] = LEAKY
    await execution.save_checkpoint()


async def _updating(store: foldlog.Store) -> None:
    assert await StateBackend(store).update_state(_LEAKY_SNAPSHOT)


async def _nothing(execution: Execution) -> None:
    """An execution that does nothing."""


async def _taking(given: object) -> None:
    """A step that gives nothing."""


_DONE, _STATE, _ARTIFACT = {"run.step_done"}, {"state.saved"}, {"stateartifact.named"}
RUNS: dict[str, Case] = {
    "Run.step": Case(
        "Run.step",
        _DONE,
        _run(lambda run: run.step("step", Steps().giving("step", LEAKY))),
        begins=True,
    ),
    "Run.step of arguments": Case(
        "Run.step",
        {"run.step_started"},
        _run(lambda run: run.step("takes", _taking, LEAKY)),
        begins=True,
    ),
    "Run.step of what raises": Case(
        "Run.step", {"run.step_failed", "task.changed"}, _raising, begins=True
    ),
    "Run.step of a large result": Case(
        "Run.step",
        _DONE,
        _run(lambda run: run.step("large", Steps().giving("large", LARGE))),
        begins=True,
    ),
    "Run.ask": Case("Run.ask", {"run.asked"}, _asking, begins=True),
    "Run.say": Case("append", {"run.said"}, _run(lambda run: run.say(LEAKY)), begins=True),
    "Run.start": Case(
        "Run.start",
        {"run.submitted"},
        _run(lambda run: run.start(_leaking, LEAKY)),
        begins=True,
    ),
    "Store.start": Case(
        "Run.start", {"run.submitted"}, lambda s: s.start(_leaking, LEAKY, id="leaks")
    ),
    "Run.step of the whole": Case(
        "Run.step", {"run.returned"}, _run(lambda run: run._return(LEAKY, None)), begins=True
    ),
    "Handle.send": Case(
        "Run.ask", {"run.answered"}, _sending, prepare=lambda s: s.start(_leaking, id="sent")
    ),
    "Queues.schedule": Case(
        "Run.schedule",
        {"schedule.made"},
        lambda s: s.queues.schedule("s", "* * * * *", _leaking, LEAKY),
    ),
    "Store.answer": Case(
        "Run.ask",
        {"run.answered"},
        _answering,
        prepare=lambda s: _asking(s, "a question", "asked"),
    ),
    "Store.confirm": Case("Run.step", _DONE, _confirming, prepare=_dying),
    "Execution.step": Case(
        "Run.step",
        _DONE,
        _execution(lambda run: run.step("step", Steps().giving("step", LEAKY))),
        begins=True,
    ),
    "Execution.step of an artifact": Case(
        "ArtifactBackend.add_artifact",
        _ARTIFACT,
        _execution(lambda run: run.step("art", Steps().giving("art", LEAKY), artifact=True)),
        begins=True,
    ),
    "Execution.ask": Case("Run.ask", {"run.asked"}, _executing_what_asks, begins=True),
    "Execution.save_checkpoint": Case(
        "Execution.save_checkpoint", _STATE, _execution(_storing), begins=True
    ),
    "Execution.put_artifact": Case(
        "ArtifactBackend.add_artifact",
        _ARTIFACT,
        _execution(lambda run: run.put_artifact("name", LEAKY)),
        begins=True,
    ),
    "StateBackend.execution": Case(
        "Execution.save_checkpoint",
        _STATE,
        _execution(_nothing, metadata=StateMetadata(description=SECRET, custom=LEAKY)),
        begins=True,
    ),
    "StateBackend.save_state": Case(
        "StateBackend.save_state", _STATE, lambda s: StateBackend(s).save_state(_LEAKY_SNAPSHOT)
    ),
    "StateBackend.update_state": Case(
        "StateBackend.update_state",
        _STATE,
        _updating,
        prepare=lambda s: StateBackend(s).save_state(snapshot()),
    ),
    "ArtifactBackend.add_artifact": Case(
        "ArtifactBackend.add_artifact",
        _ARTIFACT,
        lambda s: ArtifactBackend(s).add_artifact(SECRET.encode()),
    ),
    "ArtifactBackend.save_artifact": Case(
        "ArtifactBackend.save_artifact",
        _ARTIFACT,
        lambda s: ArtifactBackend(s).save_artifact("artifact", LEAKY),
    ),
    "ArtifactBackend.save_artifact of a pickle": Case(
        "ArtifactBackend.save_artifact",
        _ARTIFACT,
        lambda s: ArtifactBackend(s).with_codec("pickle").save_artifact("pickle", LEAKY),
    ),
}


# --- agents' states -----------------------------------------------------------------------------


def _note(text: str = SECRET) -> AgentStateEntry[Note]:
    return AgentStateEntry("agent/entry", "note", Note, 0, Note(text=text))


def _turn(use: Callable[[TurnStateContext], object], **options: Any) -> Use:
    async def save(store: foldlog.Store) -> None:
        async with store.agents.turn("agent/turn", **options) as ctx:
            use(ctx)

    return save


async def _completing(store: foldlog.Store) -> None:
    async with store.agents.turn("agent/turn") as ctx:
        ctx.update("other", Note(text="of no matter"))
        await ctx.complete(f"paid with {SECRET}")


async def _shared(store: foldlog.Store) -> None:
    async with store.agents.turn("agent/owner") as ctx:
        ctx.update("note", Note())
        token = ctx.share("note", writable=True)
    async with store.agents.turn("agent/turn") as ctx:
        ctx.update(token, Note(text=SECRET))


async def _updated(ctx: TurnStateContext) -> None:
    ctx.update("note", Note(text=SECRET))


_DUMP = {"agent/loaded": {"note": {"type": "Note", "version": 1, "state": {"text": SECRET}}}}
_TURNED, _UPDATE = {"agent.turned"}, "TurnStateContext.update"
AGENTS: dict[str, Case] = {
    "AgentStates.turn": Case(
        "AgentStates.turn",
        _TURNED,
        _turn(lambda ctx: ctx.update("plain", Note(text="plain")), label=f"paid with {SECRET}"),
    ),
    "AgentStates.run_turn": Case(
        _UPDATE, _TURNED, lambda s: s.agents.run_turn("agent/run", _updated)
    ),
    "AgentStates.set_agent_state": Case(
        _UPDATE, _TURNED, lambda s: s.agents.set_agent_state("agent/entry", _note())
    ),
    "AgentStates.set_runtime_state": Case(
        _UPDATE,
        _TURNED,
        lambda s: s.agents.repository.create_manager(Note).set_runtime_state(Note(text=SECRET)),
    ),
    "AgentStates.load_state": Case(
        "AgentStates.load_state", _TURNED, lambda s: s.agents.load_state(_DUMP)
    ),
    "TurnStateContext.update": Case(
        _UPDATE, _TURNED, _turn(lambda ctx: ctx.update("note", Note(text=SECRET)))
    ),
    "TurnStateContext.update by a token": Case(_UPDATE, _TURNED, _shared, begins=True),
    "TurnStateContext.complete": Case("AgentStates.turn", _TURNED, _completing),
    "TypedStateContext.update": Case(
        _UPDATE, _TURNED, _turn(lambda ctx: ctx.of(Note).update("note", Note(text=SECRET)))
    ),
}


# --- sessions -----------------------------------------------------------------------------------

Act = Callable[[Session], Awaitable[object]]


def _session(use: Act, session_id: str) -> Use:
    async def save(store: foldlog.Store) -> None:
        async with await store.session(session_id) as session:
            await use(session)

    return save


def _act(
    method: str, kinds: set[str], use: Act, prepare: Act | None = None, called: str = ""
) -> Case:
    """In a session of its own, that is named by the method."""
    case = Case(f"Session.{called or method}", kinds, _session(use, method))
    return case if prepare is None else case._replace(prepare=_session(prepare, method))


async def _pausing(session: Session) -> None:
    await running(session, "task")
    await session.pause_task("task")


async def _approving(session: Session) -> None:
    waiting = await session.apply_context_patch(patch=_PATCH, strategy=MergeStrategy.HUMAN_GATED)
    assert waiting is not None
    assert await session.apply_pending_patch(waiting)


async def _remembering(session: Session) -> None:
    memory = await session.memory(ShortTermMemoryConfig(strategy="truncation"), key="memory")
    await memory.add_turn(ConversationTurn(SECRET, f"card {SECRET}", artifacts_shown=LEAKY))


async def _summarising(session: Session) -> None:
    async def summed(request: object) -> dict[str, str]:
        return {"summary": f"paid with {SECRET}"}

    budget = MemoryBudget(full_zone_turns=1)
    config = ShortTermMemoryConfig(strategy="rolling_summary", budget=budget)
    memory = await session.memory(config, key="summary", summarizer=summed)
    for number in range(3):
        await memory.add_turn(ConversationTurn(f"q{number}", f"a{number}"))
    await memory.flush()
    await memory.add_turn(ConversationTurn("q", "a"))  # of which a failure is told


_PATCH = ContextPatch(
    task_id="task",
    digest=[SECRET],
    facts=LEAKY,
    artifacts=[LEAKY],
    sources=[LEAKY],
    recommended_next_steps=[SECRET],
    assumptions=[SECRET],
)
_PATCHED, _CHANGED, _STEERED = {"patch.queued"}, {"task.changed"}, {"steering.saved"}
SESSIONS: dict[str, Case] = {
    "Session.update_context": _act(
        "update_context",
        {"context.changed"},
        lambda s: s.update_context(
            llm_context=LEAKY, tool_context=LEAKY, memory=LEAKY, artifacts=[LEAKY]
        ),
    ),
    "Session.apply_context_patch": _act(
        "apply_context_patch", _PATCHED, lambda s: s.apply_context_patch(patch=_PATCH)
    ),
    "Session.apply_pending_patch": _act(
        "apply_pending_patch", _PATCHED, _approving, called="apply_context_patch"
    ),
    "Session.spawn_task": _act(
        "spawn_task",
        {"task.saved"},
        lambda s: s.spawn_task(task_id="t", description=SECRET, query=SECRET, spawn_reason=SECRET),
    ),
    "Session.complete_task": _act(
        "complete_task",
        _CHANGED | _PATCHED,
        lambda s: s.complete_task("task", LEAKY, patch=_PATCH),
        running,
    ),
    "Session.fail_task": _act(
        "fail_task", _CHANGED, lambda s: s.fail_task("task", f"no {SECRET}"), running
    ),
    "Session.report": _act(
        "report",
        {"update.saved", "task.changed"},
        lambda s: s.report("task", LEAKY, progress=LEAKY),
        running,
    ),
    "Session.create_group": _act(
        "create_group", {"group.opened"}, lambda s: s.create_group(f"about {SECRET}")
    ),
    "Session.steer": _act(
        "steer",
        _STEERED,
        lambda s: s.steer(steer("USER_MESSAGE", session_id="steer", **LEAKY)),
        running,
    ),
    "Session.cancel_task": _act(
        "cancel_task",
        _STEERED,
        lambda s: s.cancel_task("task", reason=SECRET),
        running,
        called="steer",
    ),
    "Session.pause_task": _act(
        "pause_task",
        _STEERED,
        lambda s: s.pause_task("task", reason=SECRET),
        running,
        called="steer",
    ),
    "Session.resume_task": _act(
        "resume_task",
        _STEERED,
        lambda s: s.resume_task("task", reason=SECRET),
        _pausing,
        called="steer",
    ),
    "ShortTermMemory.add_turn": Case(
        "save_memory_state", {"memory.saved"}, _session(_remembering, "remembering")
    ),
    "ShortTermMemory.flush": Case(
        "save_memory_state", {"memory.saved"}, _session(_summarising, "summarising"), begins=True
    ),
}

# --- threads of LangGraph -------------------------------------------------------------------------


class Plain:
    """A serialiser that every program has."""

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        return "msgpack", codec.encode(value)

    def loads_typed(self, typed: tuple[str, bytes]) -> Any:
        return codec.decode(typed[1])


def threads(store: foldlog.Store) -> Threads:
    return Threads(store, Forms(Plain()))


def checkpoint(id: str, **values: Any) -> dict[str, Any]:
    versions = dict.fromkeys(values, 1)
    return {"id": id, "channel_values": values, "channel_versions": versions, "versions_seen": {}}


THREADS: dict[str, Case] = {
    "Threads.put": Case(
        "FoldlogSaver.put",
        {"checkpoint.put"},
        lambda s: threads(s).put(
            Place("thread", "", None), checkpoint("c", text=LEAKY), {"about": SECRET}, {"text": 1}
        ),
    ),
    "Threads.put_writes": Case(
        "FoldlogSaver.put_writes",
        {"checkpoint.written"},
        lambda s: threads(s).put_writes(
            Place("thread", "", "c"), [(0, "text", LEAKY), (1, "text", SECRET)], "task", ""
        ),
    ),
}

CASES = SCOPED | RUNS | AGENTS | SESSIONS | THREADS
