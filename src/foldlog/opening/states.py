"""Recoverable states as a store knows them: lists, artifacts, and steps of earlier versions.

Earlier versions recorded the steps of an execution with its state. Its run takes them over when it
is first opened, or when a question of it is answered: `bring_over`.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

from msgspec.structs import replace

from foldlog import codec
from foldlog.errors import LogCorrupt, NotWaiting
from foldlog.kind import Key
from foldlog.models import Answered, Waiting
from foldlog.runs.adopting import adopt
from foldlog.runs.questions import RunSource
from foldlog.store.clearing import clear
from foldlog.store.core import Core, core_of
from foldlog.store.store import BaseStore
from foldlog.store.waiting import Ref, list_key, text_in
from foldlog_projections import belongings
from foldlog_projections.belongings import Belonging
from foldlog_projections.delta import difference
from foldlog_projections.rh_agents import stateartifacts, statelist, states
from foldlog_projections.rh_agents.statelist import Listed
from foldlog_projections.rh_agents.states import OfRun, Saved, State
from foldlog_projections.runs import runs

ARTIFACT: Final = "StoredArtifact"
"""The type of a step's result that is an artifact: its id, and the type of what it holds."""

_PHASES: Final = {"intended": "started", "waiting": "asked"}
"""Phases that have another name in a run."""


async def read_state(store: BaseStore, state_id: str) -> State:
    """Return a state as of now. Use it before the next await; never change it."""
    return (await core_of(store).read(states.kind, state_id, consistency="strong")).state


def list_on(core: Core, shard: int) -> Key[dict[str, Listed]]:
    """The list on a shard: a state and its entry are one append."""
    return statelist.kind(core.namespace.key_on(shard, statelist.kind.name))


async def listed_states(store: BaseStore) -> list[Listed]:
    """Return all states with what they are found by, as of now."""
    core = core_of(store)
    lists = [list_on(core, shard) for shard in range(core.namespace.shards)]
    found = await store.views(lists, consistency="strong")
    return [listed for each in found for listed in each.values()]


# --- artifacts ------------------------------------------------------------------------------------


def artifacts_of(state: State) -> set[str]:
    """The ids of all artifacts that a state refers to."""
    refs = state.value["artifact_refs"] if state.value else {}
    return {*refs.values(), *(s.artifact_id for s in state.steps.values() if s.artifact_id)}


async def referred_to(store: BaseStore, *, but: str = "") -> set[str]:
    """The ids of the artifacts to which states refer; `but` is a state that does not count."""
    referred: set[str] = set()
    for listed in await listed_states(store):
        if listed.state_id != but:
            referred |= artifacts_of(await read_state(store, listed.state_id))
    return referred


async def remove_with(store: BaseStore, state_id: str) -> None:
    """Remove the run of a state, and the artifacts to which it refers and no other state does.

    Where a state cannot be read, the artifacts are left to `collect_garbage`. An execution that
    saves the same content at the same moment may lose it.
    """
    core = core_of(store)
    with suppress(LogCorrupt):
        state = await read_state(store, state_id)
        referred, run = artifacts_of(state), (state.session_id, state.run)
        kept = await referred_to(store, but=state_id) if referred else set()
        for artifact_id in referred - kept:
            await clear(core, [stateartifacts.kind(artifact_id)])
        if all(run):
            await clear(core, [runs.kind(*run)])


# --- steps of earlier versions --------------------------------------------------------------------


def earlier_steps(state: State) -> dict[str, runs.Step]:
    """The steps of an execution that no run has taken over, as a run has them."""
    return {address: _as_step(each) for address, each in state.steps.items()}


def _as_step(step: states.Step) -> runs.Step:
    result, type_ = step.result, step.type
    if step.artifact_id:
        result = codec.encode({"artifact_id": step.artifact_id, "type": type_}, "result")
        type_ = ARTIFACT
    return runs.Step(
        step.address,
        step.ts,
        _PHASES.get(step.phase, step.phase),  # type: ignore[arg-type]  # the others are the same
        "question" if step.event_type == "user" else step.event_type,
        attempt=step.attempt,
        seconds=step.seconds,
        result=result,
        type=type_,
        blob=step.blob,
        error=step.error,
        message=step.message,
        question=step.request,
    )


async def whole(
    store: BaseStore, state_id: str, steps: dict[str, runs.Step]
) -> dict[str, runs.Step]:
    """Return earlier steps with the large results that stand beside their records."""
    for each in list(steps.values()):
        data = await store.blobs.read(states.kind(state_id), each.blob) if each.blob else None
        if data is not None:
            steps[each.step] = replace(each, result=data, blob="")
    return steps


async def bring_over_to(store: BaseStore, session_id: str, name: str) -> None:
    """Have a run that is new take over the steps that an earlier version recorded for it.

    They are those of the state of its name, or of its task. Errors as `Store.decide`.
    """
    listed = await store.view(belongings.kind(session_id))
    for state_id in (name, "/".join(quote(part, safe="") for part in (session_id, name))):
        if state_id == session_id or Belonging(states.kind.name, (state_id,)) in listed.views:
            await bring_over(store, state_id, session_id, name)


async def bring_over(store: BaseStore, state_id: str, session_id: str, name: str) -> None:
    """Have a run take over the steps that an earlier version recorded with a state, once.

    Errors as `Store.decide`.
    """
    state = await read_state(store, state_id)
    if state.session_id or not state.steps:
        return
    await adopt(store, session_id, name, await whole(store, state_id, earlier_steps(state)))

    def bind(state: State) -> list[Any]:
        if state.session_id:
            return []
        refs = {s.address: s.artifact_id for s in state.steps.values() if s.artifact_id}
        value = state.value or {}
        now = {**value, "artifact_refs": value.get("artifact_refs", {}) | refs}
        saved = [Saved(difference(value, now))] if refs and value else []
        return [OfRun(session_id, name), *saved]

    await store.decide(states.kind(state_id), bind, copy=False)


class Questions:
    """Where questions of earlier versions wait: a `Source` of the list."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    async def look(self, ref: Ref) -> Waiting | None:
        """See `Source.look`."""
        state_id, address = ref.keys
        step = (await read_state(self._store, state_id)).steps.get(address)
        if not _waits(step, ref) or step is None:
            return None
        asked = codec.decode(step.request)
        return Waiting(
            ref.id,
            ref.kind,
            asked,
            ref.since_time,
            session_id=text_in(asked, "session_id"),
            trace_id=text_in(asked, "trace_id"),
            task_id=text_in(asked, "task_id"),
            state_id=state_id,
            by=text_in(asked, "user_id"),
        )

    async def answer(self, ref: Ref, answer: Any, by: str) -> Answered:
        """See `Source.answer`."""
        state_id, address = ref.keys
        state = await read_state(self._store, state_id)
        session_id, run = state.session_id, state.run or state_id
        if not session_id:
            if not _waits(state.steps.get(address), ref):
                raise NotWaiting(ref.id)
            core = core_of(self._store)
            listed = list_key(core, core.subject(states.kind, state_id).shard)
            on_list = await self._store.view(listed, consistency="strong")
            session_id = on_list.get(ref.id) or state_id
            await bring_over(self._store, state_id, session_id, run)
        now = Ref(ref.kind, (session_id, run, address), ref.since)
        answered = await RunSource(self._store).answer(now, answer, by)
        return dataclasses.replace(answered, id=ref.id)


def _waits(step: states.Step | None, ref: Ref) -> bool:
    return (
        step is not None
        and step.phase == "waiting"
        and Ref.at(ref.kind, step.ts, *ref.keys).since == ref.since
    )
