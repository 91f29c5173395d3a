"""What the parts of a store promise still holds where what they keep is redacted."""

from __future__ import annotations

import asyncio
import hashlib
from collections import UserDict
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

import foldlog
from foldlog import RedactionFailed, Saving
from foldlog.integrations.rh_agents import (
    ArtifactBackend,
    ReplayMode,
    StateBackend,
    StateMetadata,
    StateSnapshot,
)
from foldlog.runs import Run, RunPaused
from foldlog.runs.results import MAX_MESSAGE
from foldlog.scoped import Lifetime, Scope, StoreOptions
from foldlog.sessions import (
    ContextPatch,
    ConversationTurn,
    MemoryBudget,
    MergeStrategy,
    Session,
    ShortTermMemoryConfig,
    TaskTelemetryEvent,
    context_hash,
)
from tests.integrations.rh_agents.running import Steps, loaded
from tests.redaction.facades import Note, snapshot
from tests.redaction.leaks import LEAKY, MASK, SECRET, Handed, Hook, masked
from tests.sessions.support import patch, running
from tests.support.build import task


@pytest.fixture
def log() -> Handed:
    return Handed()


@pytest.fixture
def hook() -> Hook:
    return Hook()


@pytest.fixture
async def store(log: Handed, hook: Hook) -> AsyncIterator[foldlog.Store]:
    async with foldlog.memory_store(log=log, redact=hook) as opened:
        yield opened


@pytest.fixture
def steps() -> Steps:
    """Steps that remember having been called."""
    return Steps()


# --- runs, and state backends on them -----------------------------------------------------------


async def test_a_step_gives_what_it_gave_once_and_then_what_is_on_record(
    store: foldlog.Store, steps: Steps
) -> None:
    async with store.run("e") as run:
        assert await run.step("step", steps.giving("step", LEAKY)) == LEAKY
        assert await run.recorded("step") == masked(LEAKY)
    async with store.run("e") as run:
        assert await run.step("step", steps.giving("step", LEAKY)) == masked(LEAKY)
    assert steps.called == ["step"]


@pytest.mark.parametrize("as_artifact", [False, True])
async def test_a_validation_compares_what_would_be_on_record(
    store: foldlog.Store, steps: Steps, as_artifact: bool
) -> None:
    async def pipeline(run: Any, text: str) -> None:
        await run.step("gives", steps.giving("gives", {"text": text}), artifact=as_artifact)
        with pytest.raises(ValueError, match="no"):
            await run.step("raises", steps.raising("raises", ValueError(f"no {text}")))

    states = StateBackend(store)
    async with states.execution("e") as run:
        await pipeline(run, SECRET)
    for text, differing in ((SECRET, []), ("other", ["gives", "raises"])):
        async with states.execution("e", replay_mode=ReplayMode.VALIDATION) as run:
            await pipeline(run, text)
            found = run.validation
        assert found.compared == 2
        assert [each.address for each in found.mismatches] == differing
        assert SECRET not in repr(found)


async def test_an_answer_is_given_once_and_redacted(store: foldlog.Store) -> None:
    async def ask(run: Run) -> object:
        return await run.ask("which", f"card {SECRET}?", wait=0)

    with pytest.raises(RunPaused):
        async with store.run("e") as run:
            await ask(run)
    [item] = await store.waiting()
    assert item.asked == f"card {MASK}?"
    await store.answer(item.id, SECRET)
    with pytest.raises(foldlog.AlreadyAnswered) as late:
        await store.answer(item.id, SECRET)
    assert late.value.answer == MASK
    assert SECRET not in str(late.value)
    async with store.run("e") as run:
        assert await ask(run) == MASK


async def test_storage_is_the_callers_own_until_somebody_takes_over(store: foldlog.Store) -> None:
    states = StateBackend(store)
    async with states.execution("e") as run:
        run.storage["card"] = SECRET
        await run.save_checkpoint()
        assert run.storage == {"card": SECRET}
    async with states.execution("e") as run:
        assert run.storage == {"card": MASK}


async def test_a_secret_where_a_message_is_cut_is_not_cut_in_two(
    store: foldlog.Store, log: Handed, steps: Steps
) -> None:
    message = "x" * (MAX_MESSAGE - 5) + SECRET
    with pytest.raises(ValueError, match="xxx"):
        async with store.run("e") as run:
            await run.step("raises", steps.raising("raises", ValueError(message)))
    assert not log.holds(SECRET[:5])


async def test_an_artifact_is_found_by_what_is_stored(store: foldlog.Store, log: Handed) -> None:
    artifacts = ArtifactBackend(store)
    artifact_id = await artifacts.add_artifact(SECRET)
    assert artifact_id == artifacts.artifact_id(SECRET) == artifacts.artifact_id(MASK)
    assert await artifacts.add_artifact(MASK) == artifact_id
    assert await artifacts.load_artifact(artifact_id) == MASK
    # Who can guess a secret could make sure by its digest.
    for digest in (SECRET.encode(), b"text\0" + SECRET.encode()):
        assert not log.holds(hashlib.sha256(digest).hexdigest())


async def test_a_state_is_listed_by_its_tags_as_they_are_stored(store: foldlog.Store) -> None:
    await StateBackend(store).save_state(snapshot("s", tags=[SECRET, "tag"], description=SECRET))
    [found] = await StateBackend(store).list_states(tags=[MASK])
    assert (found.metadata.tags, found.metadata.description) == ([MASK, "tag"], MASK)
    assert await StateBackend(store).list_states(tags=[SECRET]) == []
    await StateBackend(store).save_state(found)
    assert await loaded(store, "s") == found


# --- agents' states -----------------------------------------------------------------------------


async def test_a_turn_sees_what_it_will_have_stored(store: foldlog.Store) -> None:
    async with store.agents.turn("a") as ctx:
        ctx.update("note", Note(text=SECRET))
        assert await ctx.get("note", Note) == Note(text=MASK)


async def test_storing_the_same_again_changes_nothing(store: foldlog.Store) -> None:
    for _ in range(3):
        async with store.agents.turn("a") as ctx:
            ctx.update("note", Note(text=SECRET))
    assert len(await store.agents.history("a")) == 1


async def test_a_secret_that_grows_is_not_spread_over_changes(
    store: foldlog.Store, log: Handed
) -> None:
    half = len(SECRET) // 2
    for text in (SECRET[:half], SECRET):
        async with store.agents.turn("a") as ctx:
            ctx.update("note", Note(text="card " * 20 + text))
        await StateBackend(store).save_state(snapshot("s", description="card " * 20 + text))
    assert not log.holds(SECRET[half:])
    entry = await store.agents.get_agent_state("a", "note", Note)
    assert entry is not None
    assert entry.state.text.endswith(MASK)


async def test_a_token_is_shown_to_no_hook(store: foldlog.Store, hook: Hook) -> None:
    async with store.agents.turn("a") as ctx:
        token = ctx.share("note", writable=True)
    async with store.agents.turn("b") as ctx:
        ctx.update(token, Note(text=SECRET))
    assert [saving for saving in hook.shown if token in saving.about.values()] == []
    entry = await store.agents.get_agent_state("a", "note", Note)
    assert entry is not None
    assert entry.state == Note(text=MASK)


# --- scoped state -------------------------------------------------------------------------------


async def test_a_value_that_is_never_stored_is_shown_to_no_hook(
    store: foldlog.Store, log: Handed, hook: Hook
) -> None:
    scope, scratch = Scope.session("s"), StoreOptions(lifetime=Lifetime.TRANSIENT)
    await store.scoped.write(scope, "k", LEAKY, scratch)
    assert await store.scoped.read(scope, "k", scratch) == LEAKY
    assert (hook.shown, log.drafts) == ([], [])


async def test_what_is_read_and_found_is_what_is_stored(store: foldlog.Store) -> None:
    scope = Scope.session("s")
    version = await store.scoped.write(scope, "k", LEAKY)
    assert await store.scoped.read(scope, "k") == masked(LEAKY)
    [hit] = await store.scoped.search(scope, "card", 10)
    assert MASK in (hit.snippet or "")
    await store.scoped.write(scope, "k", SECRET, expected=version)
    assert await store.scoped.read(scope, "k") == MASK


# --- sessions -----------------------------------------------------------------------------------


@pytest.fixture
async def session(store: foldlog.Store) -> AsyncIterator[Session]:
    async with await store.session("s") as opened:
        yield opened


async def test_a_context_is_hashed_as_it_is_stored(session: Session) -> None:
    context = await session.update_context(llm_context={"card": SECRET})
    assert context.llm_context == {"card": MASK}
    assert context.context_hash == context_hash({"card": MASK})
    task = await running(session)
    snapshot = task.context_snapshot
    offered = patch(
        source_context_version=snapshot.context_version,
        source_context_hash=snapshot.context_hash,
        facts={"card": SECRET},
    )
    assert await session.apply_context_patch(patch=offered, strategy=MergeStrategy.HUMAN_GATED)
    [waiting] = session.pending_patches.values()
    assert (waiting.patch.context_diverged, waiting.patch.facts) == (False, {"card": MASK})


async def test_what_is_repeated_has_one_effect(store: foldlog.Store, session: Session) -> None:
    await running(session)
    for _ in range(2):
        await session.report("task", LEAKY, update_id="u")
        await session.apply_context_patch(patch=patch(facts=LEAKY), patch_id="p")
    updates = await store.list_updates("s", task_id="task")
    assert [u.content for u in updates if u.update_id == "u"] == [masked(LEAKY)]
    assert len(session.context.llm_context["background_results"]) == 1


async def test_a_call_shows_a_hook_once_what_it_is_given(
    store: foldlog.Store, session: Session, hook: Hook
) -> None:
    """However often it has to decide anew because others came first."""
    others = [await store.session("s") for _ in range(8)]
    await asyncio.gather(
        *(other.update_context(memory={str(n): SECRET}) for n, other in enumerate(others))
    )
    assert len(hook.shown) == 8
    assert (await session.refresh()).context.version == 8


async def test_telemetry_tells_no_secret(store: foldlog.Store) -> None:
    told: list[TaskTelemetryEvent] = []

    class Sink:
        async def emit(self, event: TaskTelemetryEvent) -> None:
            told.append(event)

    async with await store.session("s", telemetry=Sink()) as session:
        await session.create_group(SECRET, group_id="g")
        for task_id in ("fails", "goes"):
            await running(session, task_id, spawn_reason=SECRET, group_id="g")
        await session.seal_group("g")
        await session.fail_task("fails", SECRET)
        await session.cancel_task("goes", reason=SECRET)
    assert len(told) == 5
    assert SECRET not in repr(told)
    assert MASK in repr(told)


# --- hooks that return something else -----------------------------------------------------------


def turning(name: str, into: Any) -> Any:
    """A hook that makes that of one value, and leaves the others."""

    def hook(saving: Saving) -> Mapping[str, Any]:
        return {key: into if key == name else value for key, value in saving.values.items()}

    return hook


async def _turn(store: foldlog.Store) -> None:
    async with store.agents.turn("a", label="label") as ctx:
        ctx.update("note", Note(text="text"))


async def _checkpoint(store: foldlog.Store) -> None:
    metadata = StateMetadata(tags=["tag"], description="text")
    async with StateBackend(store).execution("e", metadata=metadata):
        raise AssertionError("it has begun")


async def _tasks(store: foldlog.Store) -> None:
    async with await store.session("s") as session:
        await session.create_group("name")
        await session.update_context(llm_context={"n": 1}, artifacts=[{"n": 1}])
        await session.apply_context_patch(patch=patch())
        await running(session, description="text", query="text")
        await session.report("task", 1, progress={"n": 1})
        await session.fail_task("task", "error")


@pytest.mark.parametrize(
    ("use", "name", "into"),
    [
        (_turn, "state", {"text": 5}),
        (_turn, "state", "text"),
        (_turn, "label", None),
        (_checkpoint, "tags", [5]),
        (_checkpoint, "tags", "tag"),
        (_checkpoint, "custom", None),
        (_checkpoint, "custom", {5: 5}),
        (_checkpoint, "execution_state", {}),
        (_checkpoint, "execution_state", {"storage": {"data": "text"}}),
        (_tasks, "name", None),
        (_tasks, "llm_context", []),
        (_tasks, "artifacts", {}),
        (_tasks, "facts", "text"),
        (_tasks, "digest", [5]),
        (_tasks, "context_snapshot", "text"),
        (_tasks, "context_snapshot", {"llm_context": {}}),
        (_tasks, "progress", 5),
        (_tasks, "error", None),
    ],
)
async def test_what_could_not_be_read_again_is_not_stored(use: Any, name: str, into: Any) -> None:
    log = Handed()
    async with foldlog.memory_store(log=log, redact=turning(name, into)) as store:
        with pytest.raises(RedactionFailed):
            await use(store)
        assert await StateBackend(store).load_state("e") is None


async def test_a_run_whose_description_is_no_text_afterwards_does_not_begin() -> None:
    async with foldlog.memory_store(redact=turning("description", 5)) as store:
        with pytest.raises(foldlog.PayloadError, match="description"):
            async with store.run("run", description="text"):
                raise AssertionError("it has begun")
        assert await store.list_tasks("run") == []


async def test_a_hook_that_changes_what_it_was_given_is_caught_all_the_same() -> None:
    def in_place(saving: Saving) -> Mapping[str, Any]:
        if "state" in saving.values:
            saving.values["state"]["text"] = 5
        else:
            del saving.values["context_snapshot"]["session_id"]
        return saving.values

    async with foldlog.memory_store(redact=in_place) as store, store.agents.turn("a") as ctx:
        with pytest.raises(RedactionFailed, match="is no Note"):
            ctx.update("note", Note(text="text"))
        with pytest.raises(RedactionFailed, match="the same names"):
            await store.save_task(task())


class _Lying(UserDict[str, Any]):
    def keys(self) -> Any:
        raise ValueError(SECRET)


@pytest.mark.parametrize("returned", [_Lying({"value": 1}), {SECRET: 1}])
async def test_a_failure_quotes_nothing_of_what_the_hook_returned(returned: Any) -> None:
    async with foldlog.memory_store(redact=lambda saving: returned) as store:
        with pytest.raises(RedactionFailed) as failed:
            await store.scoped.write(Scope.session("s"), "k", 1)
    assert SECRET not in str(failed.value)


# --- what subclasses add ------------------------------------------------------------------------


class _NotedPatch(ContextPatch):
    notes: str = ""


class _NotedSnapshot(StateSnapshot):
    notes: str = ""


@pytest.mark.parametrize("strategy", MergeStrategy)
async def test_what_a_patch_has_of_its_own_is_shown_to_the_hook(
    session: Session, log: Handed, strategy: MergeStrategy
) -> None:
    await session.apply_context_patch(
        patch=_NotedPatch(task_id="task", notes=SECRET), strategy=strategy
    )
    assert not log.holds(SECRET)
    assert log.holds(MASK)


async def test_what_a_snapshot_has_of_its_own_is_not_stored(
    store: foldlog.Store, log: Handed
) -> None:
    """Nobody would get it back."""
    saved = snapshot("s")
    await StateBackend(store).save_state(_NotedSnapshot(**saved.model_dump(), notes=SECRET))
    assert await loaded(store, "s") == saved
    assert not log.holds(SECRET)


# --- what is logged -----------------------------------------------------------------------------


async def test_a_failing_summarizer_is_not_quoted(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    async def wrong(request: object) -> Any:
        return f"paid with {SECRET}"

    config = ShortTermMemoryConfig(
        strategy="rolling_summary", budget=MemoryBudget(full_zone_turns=1)
    )
    memory = await session.memory(config, key="k", summarizer=wrong)
    for _ in range(2):
        await memory.add_turn(ConversationTurn("q", "a"))
    await memory.flush()
    assert "no summary" in caplog.text
    assert SECRET not in caplog.text
