"""The remote bindings of one trace: the last save of each, and whether it has ended."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Content, Fold, Kind
from foldlog_projections.kept import as_pairs


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


_decoder = msgspec.msgpack.Decoder(Key)
keep, restore = as_pairs(Key, Bound)


def initial() -> dict[Key, Bound]:
    """No bindings."""
    return {}


def replaces(envelope: Recorded, /) -> tuple[str | None, str]:
    """The binding's key."""
    key = _decoder.decode(envelope.payload)
    return key.context_id, key.task_id


def apply(state: dict[Key, Bound], envelope: Recorded, /) -> dict[Key, Bound]:
    """A save replaces; a terminal mark ends what is there and is nothing without it."""
    key = _decoder.decode(envelope.payload)
    if envelope.type != TERMINAL:
        state[key] = Bound(envelope, ended=False)
    elif key in state:
        state[key] = Bound(state[key].saved, ended=True)
    return state


kind = Kind(
    "bindings",
    keys=("trace_id",),
    owner="trace",
    records={"binding.saved": BindingSaved, TERMINAL: Key},
    fold=Fold(initial, apply, keep, restore, replaces),
)
