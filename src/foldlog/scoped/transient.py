"""Values that never reach the log. Expired ones go when others come."""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from foldlog.scoped.models import StoreOptions
from foldlog.scoped.scope import Scope

_SWEPT: Final = 64
"""Values from which on expired ones are looked for, whenever there are twice as many."""


class _Scratch(NamedTuple):
    payload: bytes
    options: StoreOptions
    expires_at: float | None

    @property
    def is_over(self) -> bool:
        return self.expires_at is not None and self.expires_at <= time.time()


class Transient:
    """Encoded values by scope and key. Lives as long as its store, or until `clear`."""

    def __init__(self) -> None:
        self._values: dict[tuple[Scope, str], _Scratch] = {}
        self._swept = _SWEPT

    def put(self, scope: Scope, key: str, payload: bytes, options: StoreOptions) -> None:
        """Keep a value; its time, if it has one, begins now."""
        expires_at = None if options.ttl is None else time.time() + options.ttl / 1000
        self._values[scope, key] = _Scratch(payload, options, expires_at)
        if len(self._values) > self._swept:
            self._values = {at: each for at, each in self._values.items() if not each.is_over}
            self._swept = max(_SWEPT, 2 * len(self._values))

    def get(self, scope: Scope, key: str) -> tuple[bytes, StoreOptions] | None:
        """The value and its hints, or None."""
        scratch = self._values.get((scope, key))
        if scratch is None:
            return None
        if scratch.is_over:
            del self._values[scope, key]
            return None
        return scratch.payload, scratch.options

    def drop(self, scope: Scope, key: str) -> None:
        """Let go of a value."""
        self._values.pop((scope, key), None)

    def clear(self, scope: Scope | None = None, key: str | None = None) -> None:
        """Let go of all; of those of one scope; or of one."""
        for at in [at for at in self._values if scope in (None, at[0]) and key in (None, at[1])]:
            del self._values[at]
