"""`foldlog updates`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from foldlog.cli import completing
from foldlog.cli.command import command
from foldlog.cli.completing import SessionId
from foldlog.cli.lines import update_line
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json, print_nothing


@command
async def updates(
    target: Target,
    session: SessionId,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Only those of this task.", autocompletion=completing.task_ids
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Those after this update_id. Without, or unknown: the latest."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 500,
    everything: Annotated[
        bool, typer.Option("--all", help="All there are, from the first on.")
    ] = False,
) -> None:
    """List what a session's tasks reported.

    The latest updates, oldest first, one a line.
    """
    from foldlog.cli.ids import check_session, check_task

    if everything:
        if since is not None:
            raise typer.BadParameter("--all and --since: give one of them")
        limit = sys.maxsize
    async with target.connect() as store:
        found = await store.list_updates(session, task_id=task, since_id=since, limit=limit)
        if not found and task is not None:
            await check_task(store, session, task)
        elif not found:
            await check_session(store, session)
    if target.json:
        print_json(found)
        return
    if not found:
        print_nothing("no updates" if since is None else "no updates after that one")
    out = console()
    for update in found:
        out.print(update_line(update), soft_wrap=True)
