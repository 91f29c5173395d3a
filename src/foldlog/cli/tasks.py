"""`foldlog tasks`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from foldlog.cli.command import command
from foldlog.cli.completing import SessionId
from foldlog.cli.options import Target
from foldlog.cli.output import console, moment, print_json, print_nothing, printable, table

if TYPE_CHECKING:
    from rich.text import Text

    from foldlog.models import TaskState

_COLOURS: Final = {"COMPLETE": "green", "FAILED": "red", "CANCELLED": "yellow", "PAUSED": "yellow"}


@command
async def tasks(target: Target, session: SessionId) -> None:
    """Show a session's tasks, and where each stands."""
    from foldlog.cli.ids import check_session

    async with target.connect() as store:
        found = await store.list_tasks(session)
        if not found:
            await check_session(store, session)
    if target.json:
        print_json(found)
        return
    if not found:
        print_nothing("no tasks")
        return
    shown = table("task", "!status", "type", ">priority", "!updated", "about")
    for task in found:
        shown.add_row(
            printable(task.task_id),
            _status(task),
            str(task.task_type),
            str(task.priority),
            moment(task.updated_at),
            printable(task.error or task.description or ""),
        )
    console().print(shown)


def _status(task: TaskState) -> Text:
    from rich.text import Text

    status = str(task.status)
    return Text(status, _COLOURS.get(status, ""))
