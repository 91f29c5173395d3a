"""What an import did, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass, field

from foldlog.importer.conversation import BrokenLine

Counts = dict[str, int]
"""How many of each sort: messages, steering, updates, tasks, trajectories."""


@dataclass(slots=True)
class ImportReport:
    """What an import did.

    Attributes:
        conversations, messages: how many were imported, now or before.
        appended: what this run saved, by sort. A conversation has one task and one trajectory.
        present: what was saved already, by sort.
        broken: each item that was left out, in the order of the input.
    """

    conversations: int = 0
    messages: int = 0
    appended: Counts = field(default_factory=dict)
    present: Counts = field(default_factory=dict)
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
