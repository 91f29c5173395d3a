"""What steps give, as data for the log, and back. No I/O."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from foldlog import codec
from foldlog.differences import differences
from foldlog.errors import PayloadError, RedactionFailed
from foldlog.store.redaction import Redaction
from foldlog.values import TypeCodec, as_plain
from foldlog_projections import states

PLAIN_DATA: Final = "plain data"
"""The type of a result that somebody else has given: of whichever type the step declares."""

MAX_MESSAGE: Final = 16 * 1024
"""Characters of an exception's message that are recorded, so that recording it cannot fail."""


class Result(NamedTuple):
    """What a step gave, as data that `foldlog.codec` holds.

    `type` names the type that reads it back; "" if it comes back as it is. `fault` says why the
    type that was declared does not read it; "" if it does.
    """

    data: Any
    type: str = ""
    fault: str = ""


def dump_result(value: Any, declared: TypeCodec[Any] | None) -> Result:
    """Return what a step gave as data.

    Raises:
        PayloadError: nothing holds it.
    """
    fault = "no type is declared"
    if declared is not None:
        try:
            return Result(declared.dump(value, "result"), declared.name)
        except PayloadError:
            fault = f"the declared type, {declared.name:.80}, is another"
    try:
        codec.encode(value, "result")
    except PayloadError:
        return Result(as_plain(value, "result"), type(value).__name__, fault)
    return Result(value)


def load_result(data: Any, type: str, declared: TypeCodec[Any] | None) -> Any:
    """Return a result of that type as the one that is declared.

    The class may have other fields by now. A class of another name has to keep all that is there.

    Raises:
        ValueError: no type is declared, or the data is not of it.
    """
    if declared is None:
        raise ValueError("no type is declared")
    try:
        value = declared.load(data)
    except ValueError as error:
        raise ValueError(f"it is no {declared.name:.80}: {error}") from error
    is_another = type not in (declared.name, PLAIN_DATA)
    if is_another and any(differences(data, as_plain(value, "result"), "result")):
        raise ValueError(f"as {declared.name:.80} it would lose a part")
    return value


class StepRedaction:
    """What a store's `redact=` makes of the steps of one state, before any of it is encoded.

    Addresses, event types and the types of exceptions are names, and stay. Each method raises
    RedactionFailed.
    """

    def __init__(self, redaction: Redaction, state_id: str) -> None:
        self._redaction = redaction
        self._state_id = state_id

    def data(self, method: str, kind: str, address: str, /, **one: Any) -> Any:
        """Return one value, given by its name, as it may be saved."""
        return self._redaction.value(method, kind, self._about(address), **one)

    def result(self, address: str, result: Result, declared: TypeCodec[Any] | None) -> Any:
        """Return the data of a result as it may be saved: it stays of its declared type."""
        method = "Execution.run"
        data = self.data(method, states.DONE, address, result=result.data)
        if self._redaction and declared is not None and result.type and not result.fault:
            try:
                declared.load(data)
            except ValueError:
                # Without its cause, which quotes the data.
                reason = f"what it returned is no {declared.name:.80}"
                raise RedactionFailed(states.DONE, method, reason) from None
        return data

    def message(self, address: str, error: Exception) -> str:
        """Return the message of an exception as it may be saved: its beginning, if it is long."""
        about = {**self._about(address), "error": type(error).__qualname__}
        given = {"message": message_of(error)}
        found = self._redaction.alike("Execution.run", states.FAILED, about, given)
        return shortened(found["message"])

    def _about(self, address: str) -> dict[str, Any]:
        return {"state_id": self._state_id, "address": address}


def message_of(error: Exception) -> str:
    """Return an exception's message, whatever its `__str__` does."""
    try:
        return str(error)
    except Exception as fault:  # noqa: BLE001 - it is the caller's code
        return f"no message: {type(fault).__name__}"


def shortened(message: str) -> str:
    """Return a message as text that the log can hold: its beginning, if it is long."""
    text = message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]} ..."
    return text.encode(errors="replace").decode()
