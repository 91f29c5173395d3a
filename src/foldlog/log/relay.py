"""A log that passes every call on to another log: the base of those that change one thing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from foldlog.log.port import Log
from foldlog.subjects import Namespace

F = TypeVar("F", bound=Callable[..., Any])


def _passed(method: F) -> F:
    """Return a method that calls this one of the log below."""

    @functools.wraps(method)
    def call(relay: Relay, *args: Any, **options: Any) -> Any:
        return getattr(relay.below, method.__name__)(*args, **options)

    return cast(F, call)


class Relay:
    """Passes every call on to `below`, which it does not own. See the port for all methods."""

    def __init__(self, below: Log) -> None:
        self.below = below

    @property
    def namespace(self) -> Namespace:
        return self.below.namespace

    @property
    def epoch(self) -> int:
        return self.below.epoch

    on_epoch = _passed(Log.on_epoch)
    known = _passed(Log.known)
    append = _passed(Log.append)
    restore = _passed(Log.restore)
    read = _passed(Log.read)
    last = _passed(Log.last)
    lasts = _passed(Log.lasts)
    scan = _passed(Log.scan)
    subjects = _passed(Log.subjects)
    stored = _passed(Log.stored)
    sequence_at = _passed(Log.sequence_at)
    heads = _passed(Log.heads)
    barrier = _passed(Log.barrier)
    follow = _passed(Log.follow)
    purge = _passed(Log.purge)
    check = _passed(Log.check)
    accept = _passed(Log.accept)
    info = _passed(Log.info)

    async def close(self) -> None:
        """Does nothing: the log below belongs to its maker."""
