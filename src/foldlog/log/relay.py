"""A log that passes every call on to another log: the base of those that change one thing."""

from __future__ import annotations

from typing import Any

from foldlog.log.port import Log
from foldlog.subjects import Namespace


class _PassedOn:
    """A method in which a relay is the log below it."""

    def __set_name__(self, owner: type[Relay], name: str) -> None:
        self._name = name

    def __get__(self, relay: Relay | None, owner: type[Relay]) -> Any:
        return self if relay is None else getattr(relay.below, self._name)


class Relay:
    """Passes every call on to `below`, which it does not own. See the port for all methods."""

    def __init__(self, below: Log) -> None:
        self.below = below
        # Each read from memory asks for the epoch: past those that only pass it on. Who counts
        # epochs of its own names itself.
        self._counts_epochs: Log = below._counts_epochs if isinstance(below, Relay) else below

    @property
    def namespace(self) -> Namespace:
        return self.below.namespace

    @property
    def epoch(self) -> int:
        return self._counts_epochs.epoch

    on_epoch: Any = _PassedOn()
    known: Any = _PassedOn()
    append: Any = _PassedOn()
    restore: Any = _PassedOn()
    read: Any = _PassedOn()
    last: Any = _PassedOn()
    are_absent: Any = _PassedOn()
    scan: Any = _PassedOn()
    subjects: Any = _PassedOn()
    stored: Any = _PassedOn()
    sequence_at: Any = _PassedOn()
    heads: Any = _PassedOn()
    barrier: Any = _PassedOn()
    follow: Any = _PassedOn()
    purge: Any = _PassedOn()
    check: Any = _PassedOn()
    accept: Any = _PassedOn()
    info: Any = _PassedOn()

    async def close(self) -> None:
        """Does nothing: the log below belongs to its maker."""
