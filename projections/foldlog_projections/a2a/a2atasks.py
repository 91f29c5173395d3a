"""One task of an A2A server: what it is now, and where its events are pushed.

Nothing here imports the A2A SDK: tasks, events and configurations are A2A's JSON.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Content, Fold, Kind, Listing
from foldlog.words import Line, Shown, said
from foldlog_projections.a2a import a2alist
from foldlog_projections.delta import Delta, patch

SAVED: Final = "agent_task.saved"
PUSHED: Final = "agent_task.pushed"


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`agent_task.saved`: a new version of the task, and the event that made it, if any.

    `change` is a delta to the task of the version before, or None: they are the same. `state` is
    A2A's name of the task's state, `at` its status's time in Unix nanoseconds.
    """

    version: int
    owner: str
    context_id: str
    state: str
    at: int | None = None
    change: Content[Delta | None] = None
    event: Content[Any] = None


class Pushed(msgspec.Struct, frozen=True, omit_defaults=True):
    """`agent_task.pushed`: the task's events are pushed so, for that owner; None: no longer."""

    owner: str
    config_id: str
    config: Content[Any] = None


class AgentTask(msgspec.Struct):
    """A task as of its last version, whole in `body`; `saved` is that record without its content,

    and `id` its id. `configs` are by owner and id.
    """

    saved: Saved | None = None
    id: str = ""
    body: Any = None
    configs: dict[str, dict[str, Any]] = {}

    @property
    def version(self) -> int:
        """The number of versions that there were."""
        return 0 if self.saved is None else self.saved.version

    def configs_of(self, owner: str | None) -> list[Any]:
        """The configurations of an owner; None: of all."""
        found = (each for whose, each in self.configs.items() if owner in (None, whose))
        return [config for configs in found for config in configs.values()]


def _apply(state: AgentTask, record: Saved | Pushed, envelope: Recorded) -> AgentTask:
    if isinstance(record, Pushed):
        configs = state.configs.setdefault(record.owner, {})
        configs.pop(record.config_id, None)
        if record.config is not None:
            configs[record.config_id] = record.config
        return state
    if record.change is not None:
        state.body = patch(state.body, record.change)
    state.saved = msgspec.structs.replace(record, change=None, event=None)
    state.id = envelope.id
    return state


def _list_of(keys: tuple[str, ...], task: AgentTask) -> tuple[str, ...] | None:
    return None if task.saved is None else (keys[0], task.saved.owner)


def _line(saved: Saved) -> Line:
    state = saved.state.removeprefix("TASK_STATE_").lower().replace("_", " ")
    event = saved.event if isinstance(saved.event, dict) else {}
    update, artifact = event.get("statusUpdate") or {}, event.get("artifactUpdate") or {}
    last = (event.get("task") or {}).get("history", [])[-1:]
    text = said(update.get("status") or artifact.get("artifact") or last)
    tone = "failed" if state in ("failed", "rejected") else "waiting" if "required" in state else ""
    return Line(f"task {state}", text, tone=tone)


kind: Final = Kind(
    "a2atasks",
    keys=("store", "task_id"),
    listed=[Listing(a2alist.kind, a2alist.off, _list_of)],
    records={SAVED: Saved, PUSHED: Pushed},
    fold=Fold(AgentTask, _apply, state=AgentTask),
    shown=Shown({SAVED: _line, PUSHED: "pushes to {config_id} changed"}, group="tasks"),
)
"""All tasks of a store are on one shard, as is the list of each owner's (`a2alist`)."""
