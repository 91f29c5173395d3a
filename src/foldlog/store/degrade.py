"""`on_error="degrade"`: a store whose failures are seen by operators, not by agents.

The StateStore specification 2.11 asks of production stores that methods "must not throw". A call
that fails then logs one structured line, counts, and returns what an empty store would have. A save
that the log cannot take now is kept in the spool, which the line tells apart.
"""

from __future__ import annotations

import copy
import functools
import inspect
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, ParamSpec, TypeVar

from foldlog.errors import FoldlogError
from foldlog.store.artifacts import Artifacts
from foldlog.store.failures import failure_event, log_failure, trace_of
from foldlog.store.spool import Spooled

P = ParamSpec("P")
T = TypeVar("T")

SPOOLED: Final = "statestore_save_spooled"
"""The `event` of a save that waits in the spool."""


class Degrade:
    """Wraps a store's methods. `failures` counts, by method, calls that did not do their work."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()

    def guard(
        self, method: Callable[P, Coroutine[Any, Any, T]], default: Callable[[], T]
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        """Return `method` as one that gives `default()` where it would raise a FoldlogError.

        Cancellation, and errors that are not foldlog's, still propagate.
        """
        name = method.__name__

        @functools.wraps(method)
        async def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return await method(*args, **kwargs)
            except FoldlogError as error:
                self._note(name, trace_of(inspect.signature(method), args, kwargs), error)
                return default()

        return guarded

    def artifacts(self, artifacts: Artifacts) -> Artifacts:
        """Return the artifacts as ones that are not there where they cannot be read or removed.

        `put_bytes` and `put_text` raise all the same: there is no reference to give back for bytes
        that are kept nowhere.
        """
        guarded = copy.copy(artifacts)
        defaults: dict[str, Callable[[], Any]] = {
            "get": _nothing,
            "get_with_session_check": _nothing,
            "get_ref": _nothing,
            "exists": bool,
            "delete": bool,
            "list": list,
            "clear_session": _nothing,
            "clear": _nothing,
        }
        for name, default in defaults.items():
            setattr(guarded, name, self.guard(getattr(artifacts, name), default))
        return guarded

    @asynccontextmanager
    async def block(self, atomic: AbstractAsyncContextManager[None]) -> AsyncIterator[None]:
        """Enter `atomic`; what its end raises is a failure of the method `atomic`.

        What the block itself raises still propagates.
        """
        await atomic.__aenter__()
        try:
            yield
        except BaseException as error:
            if not await atomic.__aexit__(type(error), error, error.__traceback__):
                raise
        else:
            try:
                await atomic.__aexit__(None, None, None)
            except FoldlogError as error:
                self._note("atomic", None, error)

    def _note(self, method: str, trace_id: str | None, error: FoldlogError) -> None:
        self.failures[method] += 1
        if isinstance(error, Spooled):
            log_failure(SPOOLED, method, trace_id, error.cause, level=logging.WARNING)
        else:
            log_failure(failure_event(method), method, trace_id, error)


def _nothing() -> None:
    return None
