"""`foldlog sessions`."""

from __future__ import annotations

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import print_json, print_names


@command
async def sessions(target: Target) -> None:
    """List the sessions that hold something."""
    async with target.connect() as store:
        found = await store.sessions()
    if target.json:
        print_json(found)
    elif found:
        print_names(found)
    else:
        typer.echo("no sessions; `foldlog show` shows what belongs to none", err=True)
