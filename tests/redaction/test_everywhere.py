"""`redact=` reaches whatever is appended, by whatever method of whatever part of a store."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import foldlog
from foldlog import RedactionFailed, Saving
from foldlog.agents import AgentStates, LogStateRepository, TurnStateContext, TypedStateContext
from foldlog.integrations.langgraph.threads import Threads
from foldlog.integrations.rh_agents import (
    ArtifactBackend,
    Execution,
    StateBackend,
    StateMetadata,
    StateSnapshot,
)
from foldlog.runs import Handle, Run
from foldlog.runs.queues import Queues
from foldlog.scoped import ScopedReader, ScopedStore
from foldlog.sessions import ContextPatch, Session, ShortTermMemory
from foldlog.store.artifacts import Artifacts
from foldlog.store.blobs import LargeValues
from foldlog_projections.registry import KINDS
from foldlog_projections.rh_agents import states
from tests.conftest import OpenStore
from tests.docs.markdown import ROOT
from tests.redaction import facades, saves
from tests.redaction.leaks import LEAKY, MASK, SECRET, Handed, Hook, raw, refusing
from tests.redaction.rest import everything_else
from tests.redaction.saves import Case

EARLIER = {each for each in states.kind.records if not each.startswith("state.")}
"""Records that only earlier versions have written."""

SEEN = {
    type: found.content
    for kind in KINDS
    for type, found in kind.records.items()
    if type not in EARLIER
}
CONTENT = {type: names for type, names in SEEN.items() if names}
"""What a hook sees, by the type of record."""

NO_CONTENT = {type for type, names in SEEN.items() if not names} | {
    *("artifact.located", "subject.cleared", "subject.forked")
}
"""Records of ids, names, times and digests; and what every kind of subject may hold."""

CASES: dict[str, Case] = saves.CASES | facades.CASES

GIVEN_NOTHING: dict[type, set[str]] = {
    foldlog.Store: {
        *(
            "list_feedback",
            "archive",
            "sql",
            "projected",
            "list_messages",
            "pop_message",
            "delete_messages",
            "mark_binding_terminal",
            "load_planner_state",
            "clear_session",
            "clear",
            "erase_session",
        ),
        *("fork", "rebuild", "verify"),
        *("load_history", "list_bindings", "find_binding"),
        *("load_memory_state", "list_tasks", "list_updates", "list_steering"),
        *("get_trajectory", "list_traces", "list_planner_events", "sessions"),
        *("view", "views", "items", "keys", "retract", "transact"),
        *("health", "position", "barrier", "belong", "erase", "waiting"),
    },
    Artifacts: {
        *("get", "get_with_session_check", "get_ref", "exists", "list"),
        *("delete", "clear_session", "clear"),
    },
    LargeValues: {"put", "keep", "read", "remove", "sweep"},  # not what `redact=` sees
    ScopedStore: {
        *("read", "entry", "list", "search", "traverse", "links"),
        *("history", "watch", "with_search", "clear_transient", "forget", "close"),
        *("delete", "unlink", "end_session", "erase"),
    },
    StateBackend: {
        "with_migrations",
        "load_state",
        "exists",
        "list_states",
        "delete_state",
    },
    ArtifactBackend: {
        *("with_codec", "artifact_id", "load_artifact", "exists", "list_artifacts", "get_size"),
        *("delete_artifact", "collect_garbage"),
    },
    Execution: {
        *("should_skip_event", "has_completed_event", "get_event_result", "get_artifact"),
        *("to_snapshot", "close"),
    },
    Run: {
        *("close", "inbox", "orders", "recorded", "steps", "usage", "usages"),
        *("sleep", "wait_for", "gather", "patched"),
    },
    Handle: {"status", "result", "cancel", "stream"},
    Queues: {
        *("all", "workers", "failed", "send_again", "limit", "pause", "resume"),
        *("handle", "unschedule", "schedules"),
    },
    AgentStates: {
        *("get_agent_state", "get_agent_states", "runtime_state", "scopes", "watch", "history"),
        *("compare", "dump_state", "revoke", "delete", "erase"),
    },
    TurnStateContext: {
        *("get", "get_entry", "keys", "version_of", "of", "delete", "reset", "share", "end"),
    },
    TypedStateContext: {"get", "delete", "reset", "share"},
    Session: {
        *("refresh", "get_task", "list_tasks", "inbox", "memory", "wait_for_group", "close"),
        *("start_task", "start_next_task", "prioritize_task", "seal_group", "acknowledge"),
        *("reject_pending_patch", "hydrate", "history", "watch", "clear"),
    },
    Threads: {
        *("get", "rows", "history", "watch", "moment"),
        *("copy", "delete", "delete_runs", "prune"),
    },
    ShortTermMemory: {"estimate_tokens", "get_llm_context", "hydrate", "erase", "close"},
}
"""What a caller hands no content to: ids, names, times, numbers at most."""

MAKES_OR_READS: set[type] = {ScopedReader, LogStateRepository}
"""Parts that append nothing: they read, or make those that are counted."""

PUBLIC = {
    name
    for name, value in inspect.getmembers(foldlog.Store, inspect.isfunction)
    if hasattr(value, "__wrapped__") or name in ("save_event", "decide")
}
"""The calls of a store; what it is made of has no other way to the log than they have."""

BELOW = (
    "foldlog.log",
    "foldlog.subjects",
    "foldlog.views",
    "foldlog.integrations.rh_agents",
    "foldlog.store.redaction",
    "foldlog.store.operation",
)
"""What a store is made of: what is appended there has passed the journal, or goes round the API."""


def test_every_public_method_has_a_case_or_is_given_nothing() -> None:
    public = {
        f"{kind.__name__}.{name}"
        for kind in GIVEN_NOTHING
        for name, value in inspect.getmembers(kind)
        if not name.startswith("_") and inspect.isfunction(value)
        if kind is not foldlog.Store or name in PUBLIC
    }
    tried = {name.partition(" of ")[0].partition(" by ")[0] for name in CASES}
    nothing = {f"{kind.__name__}.{name}" for kind, names in GIVEN_NOTHING.items() for name in names}
    assert not tried & nothing
    assert public == tried | nothing


async def test_every_part_of_a_store_is_looked_at() -> None:
    """A part that is hung up anew, on the store or on another part."""
    found: set[type] = set()
    async with foldlog.memory_store() as store:
        ahead: list[Any] = [store]
        while ahead:
            part = ahead.pop()
            if type(part) not in found:
                found.add(type(part))
                names = (name for name in dir(part) if not name.startswith("_"))
                ahead += filter(_is_part, (getattr(part, name) for name in names))
    counted = tuple(GIVEN_NOTHING)
    assert {kind for kind in found if not issubclass(kind, counted)} == MAKES_OR_READS
    assert {ScopedStore, Artifacts} < found


def _is_part(value: object) -> bool:
    module = type(value).__module__
    return module.startswith("foldlog.") and not module.startswith(BELOW) and not callable(value)


OF_WHAT: dict[type, tuple[str, set[str]]] = {
    foldlog.StoredEvent: ("event.saved", {"trace_id", "ts", "kind", "node_name", "node_id"}),
    foldlog.RemoteBinding: (
        "binding.saved",
        {
            *("trace_id", "context_id", "task_id", "router_session_id", "tenant_id", "user_id"),
            *("agent_url", "remote_skill", "last_remote_task_id", "is_terminal"),
        },
    ),
    foldlog.TaskState: (
        "task.saved",
        {
            *("task_id", "session_id", "trace_id", "status", "task_type", "priority"),
            *("created_at", "updated_at"),
        },
    ),
    foldlog.StateUpdate: (
        "update.saved",
        {
            *("session_id", "task_id", "trace_id", "update_id", "update_type", "created_at"),
            *("step_index", "total_steps"),
        },
    ),
    foldlog.SteeringEvent: (
        "steering.saved",
        {
            *("session_id", "task_id", "trace_id", "event_id", "event_type", "created_at"),
            "source",
        },
    ),
    foldlog.PlannerEvent: (
        "planner.saved",
        {"event_type", "ts", "trajectory_step", "node_name", "latency_ms", "token_estimate"},
    ),
    ContextPatch: (
        "patch.queued",
        {
            *("task_id", "spawned_from_event_id", "source_context_version"),
            *("source_context_hash", "context_diverged", "completed_at"),
        },
    ),
    StateMetadata: ("state.saved", {"pipeline_name", "parent_state_id"}),
    StateSnapshot: (
        "state.saved",
        {
            *("state_id", "created_at", "updated_at", "version", "status", "artifact_refs"),
            "metadata",  # see above
        },
    ),
}
"""Of objects that are saved: the ids, names, times and numbers that the hook does not change."""


@pytest.mark.parametrize("model", OF_WHAT)
def test_every_field_of_what_is_saved_is_shown_or_no_content(model: Any) -> None:
    """A field that somebody adds is one that nobody has thought about."""
    kind, of_what = OF_WHAT[model]
    is_pydantic = issubclass(model, BaseModel)
    fields = model.model_fields if is_pydantic else model.__dataclass_fields__
    assert fields.keys() - {*CONTENT[kind]} == of_what


def test_every_kind_that_a_hook_sees_has_a_case() -> None:
    assert {kind for case in CASES.values() for kind in case.kinds} == CONTENT.keys()


def test_the_page_on_security_says_what_a_hook_sees() -> None:
    rows = _rows(ROOT / "docs/explanation/security.md", "| `saving.kind` |")
    told = {kind.strip("` "): set(_quoted(values)) for kind, values, _ in rows}
    assert told == {kind: set(names) for kind, names in CONTENT.items()}


def test_the_page_on_the_log_format_and_the_hook_know_the_same_types() -> None:
    rows = _rows(ROOT / "docs/reference/log-format.md", "| type | subject | payload |")
    types = {name for first, *_ in rows for name in _quoted(first)}
    assert types == CONTENT.keys() | NO_CONTENT | EARLIER


# --- what is appended ---------------------------------------------------------------------------


async def tried(case: Case, redact: Any) -> tuple[Handed, Any]:
    """The log after a case, over a store with that hook."""
    log = Handed()
    async with foldlog.memory_store(log=log, redact=redact) as store:
        await case.prepare(store)
        if isinstance(redact, Hook):
            redact.shown.clear()
        await case.save(store)
    return log, redact


@pytest.mark.parametrize("name", CASES)
async def test_the_secret_is_appended_nowhere(name: str) -> None:
    log, hook = await tried(CASES[name], Hook())
    leaky = {each.kind for each in hook.shown if SECRET in repr(each.values)}
    assert leaky == CASES[name].kinds
    assert not log.holds(SECRET)
    assert log.holds(MASK)
    for each in hook.shown:
        assert set(each.values) <= set(CONTENT[each.kind])
        assert SECRET not in repr(each.about)


@pytest.mark.parametrize("name", CASES)
async def test_without_a_hook_it_is_what_the_test_looks_for(name: str) -> None:
    log, _ = await tried(CASES[name], None)
    assert log.holds(SECRET)


@pytest.mark.parametrize(
    ("kind", "blind"), [(kind, name) for kind, names in CONTENT.items() for name in names]
)
async def test_one_value_that_no_hook_has_seen_is_noticed(kind: str, blind: str) -> None:
    """The bug that all of this looks for, planted for each value."""

    def passed_by(saving: Saving) -> Mapping[str, Any]:
        seen = Hook()(saving)
        if saving.kind != kind:
            return seen
        return {**seen, **{name: saving.values[name] for name in saving.values if name == blind}}

    logs = [await tried(case, passed_by) for case in CASES.values() if kind in case.kinds]
    assert any(log.holds(SECRET) for log, _ in logs)


@pytest.mark.parametrize("name", facades.CASES)
async def test_where_the_hook_raises_nothing_of_it_is_appended(name: str) -> None:
    case, log = CASES[name], Handed()
    async with foldlog.memory_store(log=log, redact=refusing) as store:
        await case.prepare(store)
        before = len(log.drafts)
        with pytest.raises(RedactionFailed) as failed:
            await case.save(store)
        assert case.begins or len(log.drafts) == before
    assert failed.value.kind in case.kinds
    assert failed.value.method == case.method
    assert str(failed.value).startswith(f"{case.method}: redact= for {failed.value.kind}: ")
    assert SECRET not in str(failed.value)
    assert not log.holds(SECRET)


async def test_every_type_of_envelope_and_every_value_was_looked_at() -> None:
    log, hook = Handed(), Hook()
    async with foldlog.memory_store(log=log, redact=hook) as store:
        for case in CASES.values():
            await case.prepare(store)
            await case.save(store)
        await everything_else(store)
    assert log.types == CONTENT.keys() | NO_CONTENT
    assert not log.holds(SECRET)
    leaky = {
        (saving.kind, name)
        for saving in hook.shown
        for name, value in saving.values.items()
        if SECRET in repr(value)
    }
    assert leaky == {(kind, name) for kind, names in CONTENT.items() for name in names}


async def test_the_records_on_a_server_hold_no_secret(reopen: OpenStore) -> None:
    store = await reopen(redact=Hook())
    for case in CASES.values():
        await case.prepare(store)
        await case.save(store)
    held = await raw(store)
    assert SECRET.encode() not in held
    assert MASK.encode() in held


# --- what does not change -----------------------------------------------------------------------


async def test_what_a_store_without_a_hook_does_is_unchanged() -> None:
    """The same envelopes as with a hook that changes nothing."""
    logs = []
    for redact in (None, lambda saving: saving.values):
        log = Handed()
        async with foldlog.memory_store(log=log, redact=redact) as store:
            for case in CASES.values():
                await case.prepare(store)
                await case.save(store)
            await everything_else(store)
        logs.append(Counter(draft.type for draft in log.drafts))
    assert logs[0] == logs[1]


# --- what lies on the disk ----------------------------------------------------------------------


async def on_disk(path: Path, redact: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """The files in which the secret stands, and those in which what replaces it does."""
    monkeypatch.setattr("foldlog.views.snapshots.DUE_ENVELOPES", 1)
    monkeypatch.setattr("foldlog.views.snapshots.CLOSING_SECONDS", 60.0)
    async with foldlog.connect(path=path, redact=redact) as store:
        for case in CASES.values():
            await case.prepare(store)
            await case.save(store)
        await store.scoped.write(facades.SCOPE, "found", LEAKY)
        assert await store.scoped.search(facades.SCOPE, "card", 10)
    async with foldlog.connect(path=path, redact=redact) as store:
        assert await store.list_tasks("session")  # cold, so that it offers a snapshot
    return _holding(path)


def _holding(path: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {SECRET: set(), MASK: set()}
    for file in (each for each in path.rglob("*") if each.is_file()):
        content = file.read_bytes()
        for text, files in found.items():
            if text.encode() in content:
                files.add(_place(file.relative_to(path)))
    return found


def _place(file: Path) -> str:
    if "search" in file.parts:
        return "search"
    for part in file.parts:
        if part.startswith("FOLDLOG_"):
            kind = part.rpartition("_")[2]
            return "log" if kind.isdecimal() else kind
    return str(file)


EVERYWHERE = {"log", "blobs", "search", "snapshots"}


async def test_no_file_holds_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of streams, blobs, search indexes, snapshots: with the secret where nobody redacts."""
    hidden = await on_disk(tmp_path / "redacted", Hook(), monkeypatch)
    assert hidden == {SECRET: set(), MASK: EVERYWHERE}
    open_ = await on_disk(tmp_path / "open", None, monkeypatch)
    assert open_ == {SECRET: EVERYWHERE, MASK: set()}


def _rows(path: Path, heading: str) -> list[list[str]]:
    """The rows of the table with that heading, by cell."""
    lines = path.read_text().splitlines()
    [start] = [number for number, line in enumerate(lines) if line.startswith(heading)]
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def _quoted(cell: str) -> list[str]:
    return cell.split("`")[1::2]
