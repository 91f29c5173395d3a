"""`foldlog updates`."""

from __future__ import annotations

from typing import Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.lines import update_line
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json


@command
async def updates(
    target: Target,
    session: Annotated[str, typer.Argument(help="The session's id.")],
    task: Annotated[str | None, typer.Option(help="Only those of this task.")] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Those after this update_id. Without, or unknown: the latest."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 500,
) -> None:
    """List the updates of a session, oldest first, one a line."""
    async with target.connect() as store:
        found = await store.list_updates(session, task_id=task, since_id=since, limit=limit)
    if target.json:
        print_json(found)
        return
    out = console()
    for update in found:
        out.print(update_line(update), soft_wrap=True)
