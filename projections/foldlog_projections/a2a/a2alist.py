"""An index of one owner's tasks on an A2A server, with what they are listed by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.words import Shown

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


def _list(state: dict[str, Listed], record: Listed | Unlisted, _: Recorded) -> dict[str, Listed]:
    if isinstance(record, Listed):
        state[record.task_id] = record
    else:
        state.pop(record.task_id, None)
    return state


kind: Final = Kind(
    "a2alist",
    keys=("store", "owner"),
    records={LISTED: Listed, UNLISTED: Unlisted},
    fold=Fold(dict, _list, state=dict[str, Listed], forgets_ids=True),
    shown=Shown(
        {LISTED: "agent task {task_id} listed", UNLISTED: "agent task {task_id} no longer listed"},
        group="lists",
    ),
)


def off(keys: tuple[str, ...], listed: Mapping[str, Listed]) -> list[Unlisted]:
    """What takes a task off the list."""
    _, task_id = keys
    return [Unlisted(task_id)] if task_id in listed else []
