"""Comparing the results of steps with those on record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from foldlog import codec
from foldlog.differences import ABSENT, differences
from foldlog_projections.runs.runs import Step


class Mismatch(NamedTuple):
    """Where a step gave another result than the recorded one.

    Attributes:
        address: the step.
        path: leads there from the result, as in `result.flights[2].fare`; `error` if it raised.
        recorded: what was recorded; ABSENT where there is nothing.
        actual: what came now; ABSENT where there is nothing.
    """

    address: str
    path: str
    recorded: Any
    actual: Any


class Validation(NamedTuple):
    """The findings so far.

    Attributes:
        compared: how many steps were executed and are recorded.
        mismatches: where results differ.
        unexpected: steps that were executed and are not recorded.
        missing: steps that are recorded as ended and were not executed.
    """

    compared: int
    mismatches: tuple[Mismatch, ...]
    unexpected: tuple[str, ...]
    missing: tuple[str, ...]


class Comparison:
    """Gathers what differs between the steps executed now and those on record."""

    def __init__(self) -> None:
        self._compared: set[str] = set()
        self._mismatches: list[Mismatch] = []
        self._unexpected: dict[str, None] = {}

    def gave(self, address: str, step: Step | None, expected: Any, data: Any) -> None:
        """Compare a result, as data, with the one on record."""
        actual = codec.decode(codec.encode(data, "result"))
        if step is not None and step.phase == "failed":
            self._compare(address, step, "error", _error(step), ABSENT)
        else:
            self._compare(address, step, "result", expected, actual)

    def raised(self, address: str, step: Step | None, kind: str, message: str) -> None:
        """Compare an exception with the outcome on record."""
        is_failed = step is not None and step.phase == "failed"
        expected = _error(step) if step is not None and is_failed else ABSENT
        self._compare(address, step, "error", expected, f"{kind}: {message}")

    def found(self, steps: Mapping[str, Step]) -> Validation:
        """The findings so far; `steps` are those on record."""
        missing = (address for address, step in steps.items() if _has_ended(step))
        return Validation(
            compared=len(self._compared),
            mismatches=tuple(self._mismatches),
            unexpected=tuple(self._unexpected),
            missing=tuple(address for address in missing if address not in self._compared),
        )

    def _compare(
        self, address: str, step: Step | None, path: str, recorded: Any, actual: Any
    ) -> None:
        if not _has_ended(step):
            self._unexpected[address] = None
            return
        self._compared.add(address)
        found = differences(recorded, actual, path)
        self._mismatches += [Mismatch(address, *difference) for difference in found]


def _has_ended(step: Step | None) -> bool:
    return step is not None and step.phase in ("done", "failed")


def _error(step: Step) -> str:
    return f"{step.error}: {step.message}"
