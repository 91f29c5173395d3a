"""What becomes of a step that is asked for: decided from its record, without I/O."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final, NamedTuple

from foldlog import codec
from foldlog.recovery.models import ReplayMode
from foldlog_projections.states import Step


class Decision(Enum):
    """EXECUTE it, REUSE its result, or say that its outcome is UNKNOWN."""

    EXECUTE = "execute"
    REUSE = "reuse"
    UNKNOWN = "unknown"


class _Absent:
    """Stands for what the one side does not have."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


class Mismatch(NamedTuple):
    """Where a step gave another result than the one on record.

    `path` leads there from the result, as in `result.flights[2].fare`. A side that has nothing
    there is ABSENT; a step that raised stands under the path `error`, by type and message.
    """

    address: str
    path: str
    recorded: Any
    actual: Any


class Validation(NamedTuple):
    """What a validation has found so far. `compared` counts the steps executed and on record.

    `unexpected` steps were executed and are not on record; `missing` ones have ended according to
    the record and were not executed.
    """

    compared: int
    mismatches: tuple[Mismatch, ...]
    unexpected: tuple[str, ...]
    missing: tuple[str, ...]


def decide(step: Step | None, mode: ReplayMode, *, repeatable: bool = False) -> Decision:
    """Return what happens to a step, given its record.

    `repeatable`: executing it a second time does no harm, so that one whose outcome is unknown may
    be executed again.
    """
    if mode is ReplayMode.VALIDATION or step is None:
        return Decision.EXECUTE
    if step.phase == "done":
        return Decision.REUSE
    if step.phase == "intended" and not repeatable:
        return Decision.UNKNOWN
    return Decision.EXECUTE


def differences(recorded: Any, actual: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield where two values differ, field by field: path, recorded and actual value.

    Values are the same if the log holds them as the same bytes, but for the order of keys.
    """
    if isinstance(recorded, dict) and isinstance(actual, dict):
        for key in dict.fromkeys([*recorded, *actual]):
            place = f"{path}.{key}" if isinstance(key, str) else f"{path}[{key!r}]"
            yield from differences(recorded.get(key, ABSENT), actual.get(key, ABSENT), place)
    elif isinstance(recorded, list) and isinstance(actual, list):
        for index in range(max(len(recorded), len(actual))):
            left = recorded[index] if index < len(recorded) else ABSENT
            right = actual[index] if index < len(actual) else ABSENT
            yield from differences(left, right, f"{path}[{index}]")
    elif recorded is ABSENT or actual is ABSENT or codec.encode(recorded) != codec.encode(actual):
        yield path, recorded, actual
