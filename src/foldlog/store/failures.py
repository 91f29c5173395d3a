"""The one structured line for each call that fails without an error to its caller.

Its fields are those of the StateStore specification 2.11, section "Logging Recommendations":
`event`, `method`, `trace_id` and `exception`.
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
    """The trace of a call that fits `signature`: its argument `trace_id`, or else that attribute
    of what is given first. None where there is neither.
    """
    given = signature.bind(*args, **kwargs).arguments
    if "trace_id" in given:
        return _text(given["trace_id"])
    if isinstance(given.get("event"), str):
        return _text(given["event"])  # `save_event(trace_id, event)`, as older callers have it
    subject = next(iter(given.values()), None)
    try:
        return _text(getattr(subject, "trace_id", None))
    except Exception:  # noqa: BLE001 - the caller's object; saving it says what is wrong
        return None


def _text(found: object) -> str | None:
    return found if isinstance(found, str) else None
