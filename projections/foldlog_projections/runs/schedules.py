"""What begins again and again: each schedule by its name, and when it begins next."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.words import Line, Shown

SCHEDULED: Final = "schedule.made"
UNSCHEDULED: Final = "schedule.removed"
BEGUN: Final = "schedule.begun"


class Scheduled(msgspec.Struct, frozen=True, omit_defaults=True):
    """`schedule.made`: runs of a function begin by a cron line, in a time zone.

    `next` is when the first one begins, in Unix seconds. `catch_up`: those that an outage prevented
    begin afterwards.
    """

    name: str
    cron: str
    zone: str
    function: str
    arguments: msgspec.Raw
    session_id: str
    queue: str
    next: float
    priority: int = 0
    key: str = ""
    catch_up: bool = False


class Unscheduled(msgspec.Struct, frozen=True):
    """`schedule.removed`: none of it begins any more."""

    name: str


class Begun(msgspec.Struct, frozen=True):
    """`schedule.begun`: up to a time all have begun; the next one does at `next`, Unix seconds."""

    name: str
    next: float


def _apply(
    state: dict[str, Scheduled], record: Scheduled | Unscheduled | Begun, _: Recorded
) -> dict[str, Scheduled]:
    if isinstance(record, Scheduled):
        state[record.name] = record
    elif isinstance(record, Unscheduled):
        state.pop(record.name, None)
    elif (known := state.get(record.name)) is not None and record.next > known.next:
        state[record.name] = msgspec.structs.replace(known, next=record.next)
    return state


kind: Final[Kind[Any]] = Kind(
    "schedules",
    keys=("shard",),
    records={SCHEDULED: Scheduled, UNSCHEDULED: Unscheduled, BEGUN: Begun},
    fold=Fold(dict, _apply, state=dict[str, Scheduled], takes="native", forgets_ids=True),
    redacted={SCHEDULED: ("arguments",)},
    shown=Shown(
        {
            SCHEDULED: "schedule {name}: {function} at {cron}, {zone}",
            UNSCHEDULED: "schedule {name} removed",
            BEGUN: Line("a schedule has begun", tone="aside"),
        },
        group="lists",
    ),
)
"""One view holds them all. The key is a number that falls on shard 0."""
