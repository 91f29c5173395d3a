"""What a validation finds: results that are not those on record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from foldlog import codec
from foldlog.recovery.replay import ABSENT, Mismatch, Validation, differences
from foldlog_projections.states import Step


class Comparison:
    """Gathers what differs between the steps executed now and those on record."""

    def __init__(self) -> None:
        self._compared: set[str] = set()
        self._mismatches: list[Mismatch] = []
        self._unexpected: dict[str, None] = {}

    def gave(self, address: str, recorded: Step | None, expected: Any, result: Any) -> None:
        """A step has given a result; `expected` is the one on record, if it is done there.

        Raises:
            PayloadError: the result cannot be held.
        """
        if self._is_expected(address, recorded):
            if recorded is not None and recorded.phase == "failed":
                self._note(address, [("error", _error(recorded), ABSENT)])
            else:
                actual = codec.decode(codec.encode(result, "result"))
                self._note(address, differences(expected, actual, "result"))

    def raised(self, address: str, recorded: Step | None, kind: str, message: str) -> None:
        """A step has raised an exception of that kind."""
        if self._is_expected(address, recorded) and recorded is not None:
            expected = _error(recorded) if recorded.phase == "failed" else ABSENT
            self._note(address, differences(expected, f"{kind}: {message}", "error"))

    def found(self, steps: Mapping[str, Step]) -> Validation:
        """What was found so far; `steps` are those on record."""
        ended = [step.address for step in steps.values() if _has_ended(step)]
        return Validation(
            compared=len(self._compared),
            mismatches=tuple(self._mismatches),
            unexpected=tuple(self._unexpected),
            missing=tuple(address for address in ended if address not in self._compared),
        )

    def _is_expected(self, address: str, recorded: Step | None) -> bool:
        if not _has_ended(recorded):
            self._unexpected[address] = None
            return False
        self._compared.add(address)
        return True

    def _note(self, address: str, found: Iterator[tuple[str, Any, Any]] | list[Any]) -> None:
        self._mismatches += [Mismatch(address, *difference) for difference in found]


def _has_ended(step: Step | None) -> bool:
    return step is not None and step.phase in ("done", "failed")


def _error(step: Step) -> str:
    return f"{step.error}: {step.message}"
