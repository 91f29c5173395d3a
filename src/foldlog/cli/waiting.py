"""`foldlog waiting`."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from foldlog.cli import completing
from foldlog.cli.command import command
from foldlog.cli.lines import line
from foldlog.cli.options import Target
from foldlog.cli.output import console, moment, print_json, print_json_line, print_nothing
from foldlog.words import question

if TYPE_CHECKING:
    from rich.text import Text

    from foldlog.models import Waiting


@command
async def waiting(
    target: Target,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Only what goes with this session.",
            autocompletion=completing.session_ids,
        ),
    ] = None,
    after: Annotated[
        str | None, typer.Option(help="Those behind this id. Without: from the oldest.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on with whatever begins to wait.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 500,
) -> None:
    """List what waits for a person, oldest first."""
    if follow and after is not None:
        raise typer.BadParameter("--follow and --after: following begins with the oldest")
    from foldlog.cli.ids import check_session

    out = console()
    async with target.connect() as store:
        if not follow:
            found = await store.waiting(session_id=session, after=after, limit=limit)
            if session is not None and not found:
                await check_session(store, session)
        else:
            async with aclosing(store.watch_waiting(session_id=session)) as watched:
                async for item in watched:
                    if target.json:
                        print_json_line(item)
                    else:
                        out.print(_line(item), soft_wrap=True)
                    limit -= 1
                    if not limit:
                        break
            return
    if target.json:
        print_json(found)
        return
    if not found:
        print_nothing("nothing waits for a person")
    for item in found:
        out.print(_line(item), soft_wrap=True)


def _line(item: Waiting) -> Text:
    """Since when, as what, for whom, and what is asked; also where to answer, if not here."""
    where = item.asked.get("answer_in") if isinstance(item.asked, dict) else None
    asked = f"{question(item)} (answer in {where})" if where else question(item)
    return line(moment(item.since), item.id, item.by, asked)
