"""`foldlog fork`."""

from __future__ import annotations

from typing import Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.completing import SessionId
from foldlog.cli.moments import MOMENT_HELP, moment
from foldlog.cli.options import Target
from foldlog.cli.output import print_json


@command
async def fork(
    target: Target,
    session: SessionId,
    to: Annotated[
        str | None, typer.Option(help="The new session's id. Left out: one is made.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT",
            help=f"Where it goes on from: {MOMENT_HELP}, or a step: `search`, `before step 3`.",
        ),
    ] = None,
) -> None:
    """Begin a session that goes on from a moment of another one, and print its id.

    Its runs are as they were at that moment: opening one goes on from its next step.
    """
    from foldlog.cli.ids import check_recorded

    async with target.connect() as store:
        await check_recorded(store, session)
        made = await store.fork(session, to=to, at=None if at is None else moment(at))
    if target.json:
        print_json({"session_id": made})
    else:
        typer.echo(made)
