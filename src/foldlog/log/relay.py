"""A log that passes every call on to another log: the base of those that change one thing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from foldlog.log.port import Log
from foldlog.subjects import Namespace

F = TypeVar("F", bound=Callable[..., Any])


def _passed(method: F) -> Callable[[object], F]:
    """Return a decorator that puts a call of this method of the log below in a method's place."""

    @functools.wraps(method)
    def call(relay: Relay, *args: Any, **options: Any) -> Any:
        return getattr(relay.below, method.__name__)(*args, **options)

    return lambda _: cast(F, call)


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

    @_passed(Log.on_epoch)
    def on_epoch(self) -> None: ...

    @_passed(Log.known)
    def known(self) -> None: ...

    @_passed(Log.append)
    def append(self) -> None: ...

    @_passed(Log.restore)
    def restore(self) -> None: ...

    @_passed(Log.read)
    def read(self) -> None: ...

    @_passed(Log.last)
    def last(self) -> None: ...

    @_passed(Log.lasts)
    def lasts(self) -> None: ...

    @_passed(Log.scan)
    def scan(self) -> None: ...

    @_passed(Log.subjects)
    def subjects(self) -> None: ...

    @_passed(Log.stored)
    def stored(self) -> None: ...

    @_passed(Log.sequence_at)
    def sequence_at(self) -> None: ...

    @_passed(Log.heads)
    def heads(self) -> None: ...

    @_passed(Log.barrier)
    def barrier(self) -> None: ...

    @_passed(Log.follow)
    def follow(self) -> None: ...

    @_passed(Log.purge)
    def purge(self) -> None: ...

    @_passed(Log.check)
    def check(self) -> None: ...

    @_passed(Log.accept)
    def accept(self) -> None: ...

    @_passed(Log.info)
    def info(self) -> None: ...

    async def close(self) -> None:
        """Does nothing: the log below belongs to its maker."""
