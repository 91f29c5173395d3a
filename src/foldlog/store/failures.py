"""The structured line of a call that fails without an error to its caller.

Its fields are those of the StateStore specification 2.11, section "Logging Recommendations".
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Mapping
from typing import Any, Final

_log: Final = logging.getLogger("foldlog")

_READING: Final = ("load", "list", "find", "get", "exists", "sessions")


def failure_event(method: str) -> str:
    """The `event` of a call that failed: `statestore_load_failed` or `statestore_save_failed`."""
    return f"statestore_{'load' if method.startswith(_READING) else 'save'}_failed"


def log_failure(
    event: str,
    method: str,
    trace_id: str | None,
    error: BaseException,
    *,
    level: int = logging.ERROR,
) -> None:
    """Write the line; its message is `event`."""
    fields = {"event": event, "method": method, "trace_id": trace_id, "exception": repr(error)}
    _log.log(level, event, extra=fields)


def trace_of(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> str | None:
    """The trace that a call names: its argument `trace_id`, else that attribute of the first."""
    given = signature.bind(*args, **kwargs).arguments
    try:
        if "trace_id" in given:
            trace = given["trace_id"]
        elif isinstance(given.get("event"), str):
            trace = given["event"]  # `save_event(trace_id, event)`, as older callers have it
        else:
            trace = getattr(next(iter(given.values()), None), "trace_id", None)
    except Exception:  # noqa: BLE001 - the caller's object; saving it says what is wrong
        return None
    return trace if isinstance(trace, str) else None
