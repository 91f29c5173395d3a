"""What an import did, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from foldlog.importer.conversation import BrokenLine


@dataclass(slots=True)
class Counts:
    """How many of each were saved. A conversation has one task and one trajectory.

    Attributes:
        events, steering, updates, planner_events, tasks, trajectories: how many.
    """

    events: int = 0
    steering: int = 0
    updates: int = 0
    planner_events: int = 0
    tasks: int = 0
    trajectories: int = 0

    def add(self, other: Counts) -> None:
        """Add each count of another object to these.

        Args:
            other: the other object.
        """
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return sum(getattr(self, each.name) for each in fields(self))


@dataclass(slots=True)
class ImportReport:
    """What an import did.

    Attributes:
        conversations, messages: how many were imported, now or before.
        appended: what this run saved.
        present: what was saved already.
        broken: each item that was left out, in the order of the input.
    """

    conversations: int = 0
    messages: int = 0
    appended: Counts = field(default_factory=Counts)
    present: Counts = field(default_factory=Counts)
    broken: list[BrokenLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ImportProgress:
    """How far an import is.

    Attributes:
        done: bytes of input done.
        total: bytes of input.
        conversations: conversations so far.
        broken: broken items so far.
    """

    done: int
    total: int
    conversations: int
    broken: int
