"""An index of one owner's tasks on an A2A server, with what they are listed by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from foldlog.kind import Kind
from foldlog.words import Shown
from foldlog_projections.folds import listed, off_list

LISTED: Final = "agent_task.listed"
UNLISTED: Final = "agent_task.unlisted"


class Listed(msgspec.Struct, frozen=True, omit_defaults=True):
    """`agent_task.listed`: the task is so; fields as of `agent_task.saved`."""

    task_id: str
    context_id: str
    state: str
    at: int | None = None

    @property
    def place(self) -> tuple[bool, int, str]:
        """Where it stands in a list: the greatest first."""
        return self.at is not None, self.at or 0, self.task_id


class Unlisted(msgspec.Struct, frozen=True):
    """`agent_task.unlisted`: it was deleted."""

    task_id: str


def matching(
    listed: Iterable[Listed], *, context_id: str, state: str | None, since: int | None
) -> list[Listed]:
    """The tasks of a context ("": of any) and a state, whose status is not older than a time."""
    return [
        each
        for each in listed
        if context_id in ("", each.context_id)
        and state in (None, each.state)
        and (since is None or (each.at is not None and each.at >= since))
    ]


kind: Final = Kind(
    "a2alist",
    keys=("store", "owner"),
    records={LISTED: Listed, UNLISTED: Unlisted},
    fold=listed("task_id", Listed),
    shown=Shown(
        {LISTED: "agent task {task_id} listed", UNLISTED: "agent task {task_id} no longer listed"},
        group="lists",
    ),
)


off: Final = off_list(Unlisted)
"""What takes a task off the list."""
