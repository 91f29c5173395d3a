"""States as what JSON holds, and back. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.agents.evolution import Written, stored_in
from foldlog.errors import PayloadError
from foldlog.store.redaction import Redaction
from foldlog_projections.agentstates import TURNED, Change, Entry
from foldlog_projections.delta import difference

_native: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder()
_encode: Final = msgspec.msgpack.Encoder().encode


class _Exported(msgspec.Struct, frozen=True):
    type: str
    version: int
    state: Any


def exported(scope: str, entries: Mapping[str, Entry]) -> dict[str, Any]:
    """Return a scope's states by key. One that cannot be exported comes with an empty state: it is
    private, or JSON would change it.

    Raises:
        LogCorrupt: a state cannot be put together.
    """
    return {key: _exported(stored_in(entry, scope, key)) for key, entry in entries.items()}


def imported(state: Mapping[str, Any], redaction: Redaction) -> dict[str, dict[str, Written]]:
    """Return the states of an export, by scope and key. Those that came empty are left out.

    Raises:
        PayloadError: it is no export. RedactionFailed: the hook failed.
    """
    try:
        scopes = msgspec.convert(state, dict[str, dict[str, _Exported]])
    except msgspec.ValidationError as error:
        raise PayloadError("state", str(error)) from error
    return {
        scope: {
            key: _written(scope, key, held, redaction)
            for key, held in keys.items()
            if held.state != {}
        }
        for scope, keys in scopes.items()
    }


def replacing(
    scope: str, entries: Mapping[str, Entry], states: Mapping[str, Written], kept: set[str]
) -> list[Change]:
    """What makes `states` of a scope's entries; keys in `kept` stay as they are, the rest goes."""
    changes = [Change(key, gone=True) for key in entries if key not in states and key not in kept]
    for key, state in states.items():
        before = stored_in(entries[key], scope, key) if key in entries else None
        if before != state:
            old = None if before is None else _native.decode(before.raw)
            delta = difference(old, _native.decode(state.raw)) or [1, {}, []]
            changes.append(Change(key, msgspec.Raw(_encode(delta)), state.type, state.schema))
    return changes


def _written(scope: str, key: str, held: _Exported, redaction: Redaction) -> Written:
    about = {"scope": scope, "key": key, "type": held.type}
    found = redaction.alike("AgentStates.load_state", TURNED, about, {"state": held.state})
    raw = codec.encode(found["state"], f"{scope}.{key}")
    return Written(held.type, held.version, False, raw)


def _exported(stored: Written) -> dict[str, Any]:
    value = {} if stored.private else codec.decode(stored.raw)
    state = value if _is_json(value) else {}
    return {"type": stored.type, "version": stored.schema, "state": state}


def _is_json(value: Any) -> bool:
    """Whether JSON gives back just this."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False
