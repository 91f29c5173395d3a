"""Results of steps as data for the log, and back. No I/O."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from foldlog import codec
from foldlog.differences import differences
from foldlog.errors import PayloadError, RedactionFailed
from foldlog.store.redaction import Redaction
from foldlog.values import TypeCodec, as_plain
from foldlog_projections.runs import runs

PLAIN_DATA: Final = "plain data"
"""The type of a result given by `answer` or `confirm`: any type that the step declares."""

MAX_MESSAGE: Final = 16 * 1024
"""Characters of an exception's message that are recorded, so that recording it cannot fail."""


class Result(NamedTuple):
    """What a step returned, as data that `foldlog.codec` holds.

    `type` names the type that reads it back; "" if it comes back as it is. `fault` says why the
    declared type does not read it; "" if it does.
    """

    data: Any
    type: str = ""
    fault: str = ""
    encoded: bytes | None = None
    """The data as bytes, where it was encoded already."""


def dump_result(value: Any, declared: TypeCodec[Any] | None) -> Result:
    """Return what a step returned as data. Raises PayloadError if nothing holds it."""
    fault = "no type is declared"
    if declared is not None:
        try:
            return Result(declared.dump(value, "result"), declared.name)
        except PayloadError:
            fault = f"the declared type, {declared.name:.80}, is another"
    try:
        return Result(value, encoded=codec.encode(value, "result"))
    except PayloadError:
        return Result(as_plain(value, "result"), type(value).__name__, fault)


def load_result(data: Any, type: str, declared: TypeCodec[Any] | None) -> Any:
    """Return a result as the declared type. Raises ValueError if it is not of that type.

    The class may have other fields by now. A class of another name must lose none of the data.
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
    """Redacts what is recorded of one run's steps. Each method raises RedactionFailed."""

    def __init__(self, redaction: Redaction, session_id: str, run: str) -> None:
        self._redaction = redaction
        self._run = {"session_id": session_id, "run": run}

    def data(self, method: str, kind: str, step: str, /, **one: Any) -> Any:
        """Return one value, given by its name, as it may be saved."""
        return self._redaction.value(f"Run.{method}", kind, self._about(step), **one)

    def result(
        self, step: str, result: Result, declared: TypeCodec[Any] | None, kind: str = runs.DONE
    ) -> Result:
        """Return a result as it may be saved: its data stays of the declared type."""
        if not self._redaction:
            return result
        data = self.data("step", kind, step, result=result.data)
        if declared is not None and result.type and not result.fault:
            try:
                declared.load(data)
            except ValueError:
                # Without its cause, which quotes the data.
                reason = f"what it returned is no {declared.name:.80}"
                raise RedactionFailed(kind, "Run.step", reason) from None
        return result._replace(data=data, encoded=None)

    def message(self, step: str, error: Exception) -> str:
        """Return the message of an exception as it may be saved: its beginning, if it is long."""
        about = {**self._about(step), "error": type(error).__qualname__}
        given = {"message": message_of(error)}
        found = self._redaction.alike("Run.step", runs.FAILED, about, given)
        return shortened(found["message"])

    def _about(self, step: str) -> dict[str, Any]:
        return {**self._run, "step": step}


def message_of(error: Exception) -> str:
    """Return an exception's message, also where its `__str__` raises."""
    try:
        return str(error)
    except Exception as fault:  # noqa: BLE001 - it is the caller's code
        return f"no message: {type(fault).__name__}"


def shortened(message: str) -> str:
    """Return a message as text that the log can hold: its beginning, if it is long."""
    text = message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]} ..."
    return text.encode(errors="replace").decode()
