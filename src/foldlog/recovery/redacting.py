"""What a store's `redact=` sees of an execution's steps. No I/O.

What a step gives, asks or raises is redacted once, before it is encoded, made an artifact or
compared. Addresses, event types and the types of exceptions are names, and stay.
"""

from __future__ import annotations

from typing import Any

from foldlog.recovery import records
from foldlog.store.redaction import Redaction
from foldlog_projections import states

_RUN = "Execution.run"


class Redacting:
    """The hook, as the steps of one state meet it. Each method raises RedactionFailed."""

    def __init__(self, redaction: Redaction, state_id: str) -> None:
        self._redaction = redaction
        self._state_id = state_id

    def result(self, address: str, result: Any, method: str = _RUN) -> Any:
        """What a step gave, or somebody says that it gave."""
        return self._redaction.value(method, states.DONE, self._about(address), result=result)

    def request(self, address: str, request: Any) -> Any:
        """What an execution asks for."""
        about = self._about(address)
        return self._redaction.value("Execution.ask", states.WAITING, about, request=request)

    def told(self, address: str, error: Exception) -> tuple[str, str]:
        """An exception's type, and as much of its message as is kept."""
        kind, message = records.told(error)
        about = {**self._about(address), "error": kind}
        found = self._redaction.alike(_RUN, states.FAILED, about, {"message": message})
        return kind, records.kept(found["message"])

    def _about(self, address: str) -> dict[str, Any]:
        return {"state_id": self._state_id, "address": address}
