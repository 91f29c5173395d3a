"""`foldlog show`."""

from __future__ import annotations

from typing import Annotated

import typer

from foldlog.cli import completing
from foldlog.cli.command import command
from foldlog.cli.lines import fields
from foldlog.cli.moments import At, seen
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json, printable


@command
async def show(
    target: Target,
    session: Annotated[
        str | None,
        typer.Argument(
            help="A session's id, or a trace's. Without: what is in no session.",
            autocompletion=completing.session_ids,
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Only this kind, as scoped or agent.")
    ] = None,
    at: At = None,
) -> None:
    """Show all that a session holds, of every kind, or what a trace has.

    Its context, tasks, updates, events, memory, files, scoped keys, the state of its agents and
    its runs. Fields without a value are left out.
    """
    from foldlog.cli import describe
    from foldlog.cli.ids import UnknownId, check_session

    async with target.connect() as store:
        if session is None:
            found = (await describe.everything(seen(store, at)))[""]
        else:
            read = seen(store, at)
            found = await describe.session(read, session) or await describe.named(read, session)
            if not found:
                await check_session(store, session)
    if kind is not None and kind not in found:
        raise UnknownId("kind of data here:", kind, list(found))
    chosen = {name: items for name, items in found.items() if kind in (None, name)}
    if target.json:
        print_json(chosen)
        return
    out = console()
    for name, items in chosen.items():
        for id, value in items.items():
            out.print(f"{name} {printable(id)}".rstrip(), style="bold", soft_wrap=True)
            for line in fields(value):
                if not line.endswith(f"_id: {id}"):  # the heading has it
                    out.print(f"    {line}", soft_wrap=True)
