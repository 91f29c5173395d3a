"""The remote bindings of one trace: the last save of each, and whether it has ended."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Content, Fold, Kind
from foldlog.words import Shown


class BindingSaved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`binding.saved`: a RemoteBinding."""

    trace_id: str
    context_id: str | None
    task_id: str
    agent_url: str
    router_session_id: str | None = None
    remote_skill: str | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    last_remote_task_id: str | None = None
    is_terminal: bool = False
    metadata: Content[Any] = {}


TERMINAL = "binding.terminal"


class Key(msgspec.Struct, frozen=True):
    """What a binding is upserted on, inside its trace."""

    context_id: str | None
    task_id: str


class Bound(NamedTuple):
    """A saved binding. `ended` overrides what the save itself says."""

    saved: Recorded
    ended: bool


_key = msgspec.msgpack.Decoder(Key).decode


def _bind(state: dict[Key, Bound], envelope: Recorded) -> dict[Key, Bound]:
    """A save replaces. A terminal mark ends a saved binding, and has no effect without one."""
    key = _key(envelope.payload)
    if envelope.type != TERMINAL:
        state[key] = Bound(envelope, ended=False)
    elif key in state:
        state[key] = Bound(state[key].saved, ended=True)
    return state


kind: Final = Kind(
    "bindings",
    keys=("trace_id",),
    owner="trace",
    records={"binding.saved": BindingSaved, TERMINAL: Key},
    fold=Fold(
        dict,
        _bind,
        state=dict[Key, Bound],
        takes="envelope",
        replaces=("context_id", "task_id"),
    ),
    shown=Shown(
        {
            "binding.saved": "remote task {task_id} at {agent_url}",
            TERMINAL: "remote task {task_id} ended",
        }
    ),
)
