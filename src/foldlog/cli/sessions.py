"""`foldlog sessions`."""

from __future__ import annotations

from typing import Final

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import print_json, print_names, print_nothing, printable

_ID_WIDTH: Final = 40
"""Columns that ids have at least where one is longer."""


@command
async def sessions(target: Target) -> None:
    """List the sessions that hold something, and what each is about."""
    from foldlog.cli import describe

    async with target.connect() as store:
        found = await store.sessions()
        titles = {} if target.json else await describe.titles(store, found)
    if target.json:
        print_json(found)
    elif found:
        names = {printable(id): title for id, title in titles.items()}
        width = min(max(map(len, names)), _ID_WIDTH)
        print_names(f"{id:<{width}}  {title}".rstrip() for id, title in names.items())
    else:
        print_nothing("no sessions; `foldlog show` shows what belongs to none")
