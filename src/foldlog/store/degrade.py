"""`on_error="degrade"`: a store whose failures are seen by operators, not by agents.

The StateStore specification 2.11 asks of production stores that methods "must not throw". A call
that fails then logs one structured line, counts, and returns what an empty store would have.
"""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Final, ParamSpec, TypeVar

from foldlog.errors import FoldlogError

P = ParamSpec("P")
T = TypeVar("T")

_log: Final = logging.getLogger("foldlog")


class Degrade:
    """Wraps a store's methods. `failures` counts swallowed failures by method."""

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
                self.failures[name] += 1
                verb = "save" if name.startswith(("save", "mark", "clear")) else "load"
                event = f"statestore_{verb}_failed"
                _log.error(
                    event,
                    extra={
                        "event": event,
                        "method": name,
                        "trace_id": _trace_id(args, kwargs),
                        "exception": repr(error),
                    },
                )
                return default()

        return guarded


def _trace_id(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    if "trace_id" in kwargs:
        return str(kwargs["trace_id"])
    subject = args[0] if args else next(iter(kwargs.values()), None)
    found = subject if isinstance(subject, str) else getattr(subject, "trace_id", None)
    return None if found is None else str(found)
