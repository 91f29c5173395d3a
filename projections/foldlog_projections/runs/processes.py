"""A process that has runs: it says again and again that it lives."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.words import Shown

LIVES: Final = "process.lives"
LEFT: Final = "process.left"


class Lives(msgspec.Struct, frozen=True):
    """`process.lives`: for `lease` seconds more, unless it says so again before.

    `place` names the kernel and its process ids, by which others of the same place look whether the
    process is there; `started` is when, by the kernel's clock. "" where that cannot be known.
    """

    lease: float
    number: int
    host: str
    pid: int
    place: str = ""
    started: str = ""


class Left(msgspec.Struct, frozen=True):
    """`process.left`: it has no runs any more."""


def _apply(state: Lives | None, record: Lives | Left, _: Recorded) -> Lives | None:
    return record if isinstance(record, Lives) else None


def _nothing() -> Lives | None:
    return None


kind: Final[Kind[Any]] = Kind(
    "processes",
    keys=("process",),
    records={LIVES: Lives, LEFT: Left},
    fold=Fold(_nothing, _apply, state=Lives | None, latest_only=True, forgets_ids=True),
    shown=Shown(
        {LIVES: "process {pid} on {host} lives", LEFT: "process {process} ended"},
        entries=lambda _: {},  # that a process lives is nothing that anybody has saved
    ),
)
