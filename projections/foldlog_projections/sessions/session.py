"""What a session is beside its tasks: context, patches, groups, acknowledgements.

Writers compare-and-set, so that a context's delta is always one to the context before it, and a
decision stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.words import Line, Shown, said
from foldlog_projections import waiting
from foldlog_projections.delta import patch, touched
from foldlog_projections.fold import EqualByBytes

CONTEXT: Final = "context.changed"
QUEUED: Final = "patch.queued"
DECIDED: Final = "patch.decided"
ACKNOWLEDGED: Final = "steering.acknowledged"
OPENED: Final = "group.opened"
JOINED: Final = "group.joined"
SEALED: Final = "group.sealed"
ENDED: Final = "group.task_ended"

APPLIED: Final = "applied"
REJECTED: Final = "rejected"

_COMPLETE: Final = "COMPLETE"


class ContextChanged(msgspec.Struct, frozen=True):
    """`context.changed`: the context now, as a delta to the one before.

    `version` counts changes. `hash` is that of the context's `llm_context`, by the writer: it is
    of a form that only the values themselves have, not their encoding.
    """

    delta: Any
    version: int
    hash: str | None


class PatchQueued(msgspec.Struct, frozen=True):
    """`patch.queued`: a patch waits for approval. Times are ISO 8601."""

    patch_id: str
    task_id: str
    patch: msgspec.Raw
    queued_at: str


class PatchDecided(msgspec.Struct, frozen=True):
    """`patch.decided`: "applied" or "rejected", for ever. `strategy` is how it was merged."""

    patch_id: str
    outcome: str
    strategy: str = ""


class Acknowledged(msgspec.Struct, frozen=True):
    """`steering.acknowledged`: exactly one worker has taken the event."""

    event_id: str
    worker: str


class GroupOpened(msgspec.Struct, frozen=True):
    """`group.opened`: tasks may join."""

    group_id: str
    name: str
    strategy: str
    created_at: str


class GroupJoined(msgspec.Struct, frozen=True):
    """`group.joined`: the task, just spawned, belongs to the group."""

    group_id: str
    task_id: str


class GroupSealed(msgspec.Struct, frozen=True):
    """`group.sealed`: no more tasks may join."""

    group_id: str
    sealed_at: str


class GroupTaskEnded(msgspec.Struct, frozen=True):
    """`group.task_ended`: a task of the group has come to this final status."""

    group_id: str
    task_id: str
    status: str
    ended_at: str


class Group(msgspec.Struct, frozen=True):
    """A group as it stands. `ended` has the final status of each task that has one.

    `status` is "open", "sealed", "complete" or "failed"; `ended_at` is when it came to one of the
    last two.
    """

    group_id: str
    name: str
    strategy: str
    created_at: str
    status: str = "open"
    task_ids: tuple[str, ...] = ()
    ended: dict[str, str] = {}
    sealed_at: str | None = None
    ended_at: str | None = None

    @property
    def is_ended(self) -> bool:
        """Whether it is sealed and all of its tasks have ended."""
        return self.status in ("complete", "failed")


@dataclass(slots=True, eq=False)
class State(EqualByBytes):
    """`context` is the context in MessagePack's types; None if none was ever set.

    `pending` are the patches that wait, oldest first; `decided` has the outcome of every other
    one, `acknowledged` the worker of every steering event that was taken.
    """

    context: dict[str, Any] | None = None
    version: int = 0
    hash: str | None = None
    pending: dict[str, PatchQueued] = field(default_factory=dict)
    decided: dict[str, str] = field(default_factory=dict)
    acknowledged: dict[str, str] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether it holds anything."""
        return bool(self.version or self.pending or self.decided or self.acknowledged) or bool(
            self.groups
        )

    def group_of(self, task_id: str) -> Group | None:
        """The group that a task belongs to, if any."""
        return next((g for g in self.groups.values() if task_id in g.task_ids), None)


def _apply(state: State, record: Any, _: Recorded) -> State:
    match record:
        case ContextChanged(delta, version, hash):
            state.context = patch(state.context, delta)
            state.version, state.hash = version, hash
        case PatchQueued(patch_id=patch_id) as queued:
            # Not within the record's memory: a patch may wait for long.
            state.pending[patch_id] = replace(queued, patch=queued.patch.copy())
        case PatchDecided(patch_id, outcome):
            state.pending.pop(patch_id, None)
            state.decided[patch_id] = outcome
        case Acknowledged(event_id, worker):
            state.acknowledged.setdefault(event_id, worker)
        case GroupOpened(group_id, group_name, strategy, created_at):
            state.groups[group_id] = Group(group_id, group_name, strategy, created_at)
        case change if (group := state.groups.get(change.group_id)) is not None:
            state.groups[group.group_id] = grouped(group, change)
    return state


def grouped(group: Group, change: GroupJoined | GroupSealed | GroupTaskEnded) -> Group:
    """The group after a change."""
    match change:
        case GroupJoined(task_id=task_id):
            return replace(group, task_ids=(*group.task_ids, task_id))
        case GroupSealed(sealed_at=at):
            return _judged(replace(group, status="sealed", sealed_at=at), at)
        case GroupTaskEnded(task_id=task_id, status=status, ended_at=at):
            return _judged(replace(group, ended={**group.ended, task_id: status}), at)


def _judged(group: Group, at: str) -> Group:
    if group.status != "sealed" or any(task not in group.ended for task in group.task_ids):
        return group
    failed = any(status != _COMPLETE for status in group.ended.values())
    return replace(group, status="failed" if failed else "complete", ended_at=at)


def _queued(queued: PatchQueued) -> Line:
    asked = codec.decode(queued.patch)
    digest = asked.get("digest") if isinstance(asked, dict) else None
    text = said(digest or asked)
    about = (queued.patch_id,)
    return Line(f"patch {queued.patch_id} waits", text, "steering", "waiting", about, "")


kind: Final = Kind(
    "session",
    keys=("session_id",),
    owner="session",
    listed=[waiting.listing("patch")],
    records={
        CONTEXT: ContextChanged,
        QUEUED: PatchQueued,
        DECIDED: PatchDecided,
        ACKNOWLEDGED: Acknowledged,
        OPENED: GroupOpened,
        JOINED: GroupJoined,
        SEALED: GroupSealed,
        ENDED: GroupTaskEnded,
    },
    fold=Fold(State, _apply, state=State, takes="native"),
    redacted={
        CONTEXT: ("llm_context", "tool_context", "memory", "artifacts"),
        QUEUED: (
            "digest",
            "facts",
            "artifacts",
            "sources",
            "recommended_next_steps",
            "assumptions",
        ),
        OPENED: ("name",),
    },
    shown=Shown(
        {
            CONTEXT: lambda context: Line("context changed", touched(context.delta)),
            QUEUED: _queued,
            DECIDED: lambda patch: Line(
                f"patch {patch.patch_id} {patch.outcome}",
                group="steering",
                about=(patch.patch_id,),
            ),
            ACKNOWLEDGED: lambda order: Line(f"{order.worker} took it", about=(order.event_id,)),
            OPENED: "group {group_id} opened: {name}",
            JOINED: "task {task_id} joined group {group_id}",
            SEALED: "group {group_id} sealed",
            ENDED: "task {task_id} of group {group_id} ended: {status}",
        },
        group="context",
    ),
)
