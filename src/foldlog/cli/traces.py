"""`foldlog traces`."""

from __future__ import annotations

from typing import Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import print_json, print_names


@command
async def traces(
    target: Target,
    session: Annotated[str, typer.Argument(help="The session's id.")],
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
) -> None:
    """List a session's traces, one a line; the one whose trajectory was saved last comes first."""
    async with target.connect() as store:
        found = await store.list_traces(session, limit)
    if target.json:
        print_json(found)
    else:
        print_names(found)
