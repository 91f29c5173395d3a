"""A log that passes every call on to another log: the base of those that change one thing."""

from __future__ import annotations

from typing import Any

from foldlog.log.port import Log
from foldlog.subjects import Namespace


def _passed_on(name: str) -> Any:
    """A method of a relay that the log below it has under that name."""

    def call(relay: Relay, *args: Any, **options: Any) -> Any:
        return getattr(relay.below, name)(*args, **options)

    return call


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

    on_epoch: Any = _passed_on("on_epoch")
    known: Any = _passed_on("known")
    append: Any = _passed_on("append")
    restore: Any = _passed_on("restore")
    read: Any = _passed_on("read")
    last: Any = _passed_on("last")
    are_absent: Any = _passed_on("are_absent")
    scan: Any = _passed_on("scan")
    subjects: Any = _passed_on("subjects")
    stored: Any = _passed_on("stored")
    sequence_at: Any = _passed_on("sequence_at")
    heads: Any = _passed_on("heads")
    barrier: Any = _passed_on("barrier")
    follow: Any = _passed_on("follow")
    purge: Any = _passed_on("purge")
    check: Any = _passed_on("check")
    accept: Any = _passed_on("accept")
    info: Any = _passed_on("info")

    async def close(self) -> None:
        """Does nothing: the log below belongs to its maker."""
