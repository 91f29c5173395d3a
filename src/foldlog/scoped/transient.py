"""Values that never reach the log: a scratchpad in this process."""

from __future__ import annotations

import time
from typing import NamedTuple

from foldlog.scoped.models import StoreOptions
from foldlog.scoped.scope import Scope


class _Scratch(NamedTuple):
    payload: bytes
    options: StoreOptions
    expires_at: float | None


class Transient:
    """Encoded values by scope and key. Lives as long as its store, or until `clear`."""

    def __init__(self) -> None:
        self._values: dict[tuple[Scope, str], _Scratch] = {}

    def put(self, scope: Scope, key: str, payload: bytes, options: StoreOptions) -> None:
        """Keep a value; its time, if it has one, begins now."""
        expires_at = None if options.ttl is None else time.time() + options.ttl / 1000
        self._values[scope, key] = _Scratch(payload, options, expires_at)

    def get(self, scope: Scope, key: str) -> tuple[bytes, StoreOptions] | None:
        """The value and its hints, or None."""
        scratch = self._values.get((scope, key))
        if scratch is None:
            return None
        if scratch.expires_at is not None and scratch.expires_at <= time.time():
            del self._values[scope, key]
            return None
        return scratch.payload, scratch.options

    def drop(self, scope: Scope, key: str) -> None:
        """Let go of a value."""
        self._values.pop((scope, key), None)

    def drop_scope(self, scope: Scope) -> None:
        """Let go of all values of a scope."""
        for at in [at for at in self._values if at[0] == scope]:
            del self._values[at]

    def clear(self) -> None:
        """Let go of all."""
        self._values.clear()
