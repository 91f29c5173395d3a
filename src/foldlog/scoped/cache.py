"""Values in memory: copies of those on the log, and those that never reach it."""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections import OrderedDict
from typing import Final, NamedTuple

from foldlog.scoped.models import NEUTRAL, MemoryTier, StoreOptions
from foldlog.scoped.scope import Scope
from foldlog.subjects import Subject

_VALUE_BYTES: Final = 300
"""What a value in memory costs beside its payload."""

_Rank = tuple[int, float]


class _Value(NamedTuple):
    version: str
    payload: bytes
    rank: _Rank


class Cache:
    """Encoded values by their subject, of the version that was put in last.

    What leaves first: WARM before HOT, then the least salient, then the least recently used. COLD
    values are never in it.

    Args:
        max_bytes: how much memory it may take, by estimate.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._values: dict[Subject, _Value] = {}
        self._ranks: list[_Rank] = []
        self._by_rank: dict[_Rank, OrderedDict[Subject, None]] = {}
        self.bytes: int = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, subject: Subject, version: str) -> bytes | None:
        """The payload of that version, if it is here."""
        value = self._values.get(subject)
        if value is None or value.version != version:
            return None
        self._by_rank[value.rank].move_to_end(subject)
        return value.payload

    def put(
        self, subject: Subject, version: str, payload: bytes, tier: str, salience: float | None
    ) -> None:
        """Take a value in, unless it is COLD; what is here of the same subject goes."""
        self.drop(subject)
        if tier == MemoryTier.COLD or _size(payload) > self._max_bytes:
            return
        rank = (int(tier != MemoryTier.WARM), NEUTRAL if salience is None else salience)
        self._values[subject] = _Value(version, payload, rank)
        if rank not in self._by_rank:
            self._by_rank[rank] = OrderedDict()
            insort(self._ranks, rank)
        self._by_rank[rank][subject] = None
        self.bytes += _size(payload)
        while self.bytes > self._max_bytes:
            self.drop(next(iter(self._by_rank[self._ranks[0]])))

    def drop(self, subject: Subject) -> None:
        """Let go of what is here of a subject."""
        value = self._values.pop(subject, None)
        if value is None:
            return
        self.bytes -= _size(value.payload)
        subjects = self._by_rank[value.rank]
        del subjects[subject]
        if not subjects:
            del self._by_rank[value.rank]
            del self._ranks[bisect_left(self._ranks, value.rank)]


def _size(payload: bytes) -> int:
    return len(payload) + _VALUE_BYTES


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
