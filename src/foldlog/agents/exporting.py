"""States as what JSON holds, and back. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from foldlog import codec, values
from foldlog.agents.states import Written, change_of, stored_in
from foldlog.errors import PayloadError
from foldlog.store.redaction import Redaction
from foldlog_projections.agentstates import TURNED, Change, Entry


class _Exported(msgspec.Struct, frozen=True):
    type: str
    version: int
    state: Any


def exported(scope: str, entries: Mapping[str, Entry]) -> dict[str, Any]:
    """Return a scope's states by key. A private one comes with an empty state.

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
    changes = (
        change_of(
            stored_in(entries[key], scope, key) if key in entries else None, states.get(key), key
        )
        for key in dict.fromkeys([*entries, *states])
        if key not in kept
    )
    return [change for change in changes if change is not None]


def _written(scope: str, key: str, held: _Exported, redaction: Redaction) -> Written:
    about = {"scope": scope, "key": key, "type": held.type}
    given = {"state": values.from_json(held.state)}
    found = redaction.alike("AgentStates.load_state", TURNED, about, given)["state"]
    return Written(held.type, held.version, False, codec.encode(found, f"{scope}.{key}"))


def _exported(stored: Written) -> dict[str, Any]:
    state = {} if stored.private else values.to_json(codec.decode(stored.raw))
    return {"type": stored.type, "version": stored.schema, "state": state}
