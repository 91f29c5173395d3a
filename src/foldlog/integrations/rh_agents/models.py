"""The words of state recovery: snapshots of an execution, and how one is replayed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol, TypeVar

from pydantic import BaseModel, Field

from foldlog import codec
from foldlog.errors import ConfigurationError

T = TypeVar("T", list[Any], dict[Any, Any])

SCHEMA_VERSION: Final = "1.0.0"
"""The version of a snapshot whose maker does not give another."""


class StateStatus(StrEnum):
    """Where an execution stands."""

    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"


class ReplayMode(StrEnum):
    """What happens to steps that are recorded.

    NORMAL: their results are returned. VALIDATION: they are executed again and compared; nothing is
    recorded. REPUBLISH_ALL: as NORMAL, and their events are published again, marked as replayed.
    """

    NORMAL = "normal"
    VALIDATION = "validation"
    REPUBLISH_ALL = "republish_all"


class EventType(StrEnum):
    """What kind of step it is.

    Any other text is a type, too; it only triggers no checkpoint unless
    `AutoCheckpointConfig.checkpoint_after_events` names it.
    """

    AGENT = "agent"
    LLM = "llm"
    TOOL = "tool"
    USER = "user"
    STEP = "step"


class ExecutionStatus(StrEnum):
    """How a step stands, in a snapshot's history and on the event bus.

    STARTED in a history means: intended, and nothing is known of its end.
    """

    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"
    AWAITING = "awaiting"
    RETRACTED = "retracted"
    RECOVERED = "recovered"


class StateMetadata(BaseModel):
    """What a state is found by.

    Attributes:
        tags: words to find it by.
        description: what it is, for a reader.
        pipeline_name: the pipeline that it is of.
        parent_state_id: the state from which it was derived.
        custom: whatever else there is.
    """

    tags: list[str] = Field(default_factory=list)
    description: str = ""
    pipeline_name: str = ""
    parent_state_id: str | None = None
    custom: dict[str, Any] = Field(default_factory=dict)


class StateDiff(BaseModel):
    """What differs between two snapshots: `StateSnapshot.diff` makes it.

    Attributes:
        new_events, removed_events: steps that only the one has.
        changed_storage: the value before and after, by key.
        new_artifacts, removed_artifacts: names that only the one has.
    """

    new_events: list[dict[str, Any]] = Field(default_factory=list)
    removed_events: list[dict[str, Any]] = Field(default_factory=list)
    changed_storage: dict[str, tuple[Any, Any]] = Field(default_factory=dict)
    new_artifacts: list[str] = Field(default_factory=list)
    removed_artifacts: list[str] = Field(default_factory=list)


class StateSnapshot(BaseModel):
    """An execution's whole state. Times are ISO 8601 text.

    Attributes:
        state_id: the execution.
        created_at, updated_at: when it was made, and changed last.
        version: of the schema of `execution_state`, as `major.minor.patch`.
        status: where it stands.
        metadata: what it is found by.
        execution_state: storage and history.
        artifact_refs: the ids of its artifacts, by the names under which it knows them.
    """

    state_id: str
    created_at: str
    updated_at: str
    version: str = SCHEMA_VERSION
    status: StateStatus
    metadata: StateMetadata = Field(default_factory=StateMetadata)
    execution_state: dict[str, Any]
    artifact_refs: dict[str, str] = Field(default_factory=dict)

    def is_compatible(self, current_version: str) -> bool:
        """Return whether a program of a schema version can read this snapshot as it is.

        By semantic versioning: the major versions are the same, and where they are 0, the minor
        ones too. A version that is not of that form is compatible with itself only.

        Args:
            current_version: the program's version.

        Raises:
            ConfigurationError: `current_version` is not of that form.
        """
        current = _parsed(current_version)
        if current is None:
            raise ConfigurationError(f"{current_version!r} is no version of the form 1.2.3")
        own = _parsed(self.version)
        if own is None:
            return self.version == current_version
        return own[:1] == current[:1] if own[0] else own[:2] == current[:2]

    @staticmethod
    def diff(snapshot1: StateSnapshot, snapshot2: StateSnapshot) -> StateDiff:
        """Return what `snapshot2` has that `snapshot1` has not, and the other way round.

        Events are those of `execution_state["history"]["events"]`, compared by their content: one
        that has changed is removed and new. Storage is `execution_state["storage"]["data"]`; a
        changed key comes with its value in each, or None. What is of another shape is passed over.

        Args:
            snapshot1: the one snapshot.
            snapshot2: the other snapshot.
        """
        events1, events2 = _events(snapshot1), _events(snapshot2)
        storages = (_inner(each, "storage", "data", dict) for each in (snapshot1, snapshot2))
        storage1, storage2 = storages
        refs1, refs2 = snapshot1.artifact_refs, snapshot2.artifact_refs
        return StateDiff(
            new_events=_beyond(events2, events1),
            removed_events=_beyond(events1, events2),
            changed_storage={
                key: (storage1.get(key), storage2.get(key))
                for key in dict.fromkeys([*storage1, *storage2])
                if (key in storage1) != (key in storage2) or storage1[key] != storage2[key]
            },
            new_artifacts=[key for key in refs2 if key not in refs1],
            removed_artifacts=[key for key in refs1 if key not in refs2],
        )


class AutoCheckpointConfig(BaseModel):
    """After which steps an execution saves a checkpoint by itself.

    Attributes:
        enabled: False: after none.
        checkpoint_after_events: after any step of these types.
        checkpoint_after_artifacts: after a step with `artifact=True`, and after `put_artifact`.
        checkpoint_after_llm: after a step of the type LLM.
        checkpoint_after_tools: after a step of the type TOOL.
    """

    enabled: bool = False
    checkpoint_after_events: list[EventType | str] = Field(default_factory=list)
    checkpoint_after_artifacts: bool = True
    checkpoint_after_llm: bool = True
    checkpoint_after_tools: bool = True

    def applies_to(self, event_type: str, *, is_artifact: bool = False) -> bool:
        """Return whether a checkpoint follows a step of that type that has completed.

        Args:
            event_type: the type.
            is_artifact: whether its result is an artifact.
        """
        return self.enabled and (
            event_type in self.checkpoint_after_events
            or (is_artifact and self.checkpoint_after_artifacts)
            or (event_type == EventType.LLM and self.checkpoint_after_llm)
            or (event_type == EventType.TOOL and self.checkpoint_after_tools)
        )


@dataclass(frozen=True, slots=True)
class ExecutionEvent:
    """A step that started, ended, waits, or was found recorded (RECOVERED).

    Attributes:
        state_id: the execution.
        address: the step.
        event_type: what kind of step it is.
        execution_status: how it stands.
        result: the step's result; the same object unless `is_replayed`.
        message: that of the exception of a FAILED step.
        execution_time: seconds; 0 for a step that did not run now.
        is_replayed: the result was recorded before.
        skip_republish: the event is not published, as for replayed steps without REPUBLISH_ALL.
    """

    state_id: str
    address: str
    event_type: str
    execution_status: ExecutionStatus
    result: Any = None
    message: str = ""
    execution_time: float = 0.0
    is_replayed: bool = False
    skip_republish: bool = False


class EventBus(Protocol):
    """A listener of an execution. It is not stored: a resumed execution needs one again."""

    def publish(self, event: ExecutionEvent) -> Awaitable[None] | None:
        """Receive `event`, or return an awaitable that does. What it raises, the step raises."""


def _parsed(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    return int(parts[0]), int(parts[1]) if len(parts) > 1 else 0


def _inner(snapshot: StateSnapshot, outer: str, inner: str, form: type[T]) -> T:
    """A part of a snapshot's state; empty where it has another shape."""
    found = snapshot.execution_state.get(outer)
    part = found.get(inner) if isinstance(found, Mapping) else None
    return part if isinstance(part, form) else form()


def _events(snapshot: StateSnapshot) -> list[dict[str, Any]]:
    events: list[Any] = _inner(snapshot, "history", "events", list)
    return [event for event in events if isinstance(event, dict)]


def _beyond(events: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events that occur more often than in `others`, in order."""
    left = Counter(codec.encode(event, "history.events") for event in others)
    beyond = []
    for event in events:
        content = codec.encode(event, "history.events")
        if left[content]:
            left[content] -= 1
        else:
            beyond.append(event)
    return beyond
