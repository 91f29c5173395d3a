"""`foldlog show`."""

from __future__ import annotations

from typing import Annotated

import typer

from foldlog.cli import completing
from foldlog.cli.command import command
from foldlog.cli.lines import fields, story_lines
from foldlog.cli.moments import At, seen
from foldlog.cli.options import Target
from foldlog.cli.output import beside, console, print_json, printable


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
    everything: Annotated[
        bool, typer.Option("--all", help="All that it holds, field by field.")
    ] = False,
    at: At = None,
) -> None:
    """Tell what happened in a session, in order.

    Messages, steps with their arguments and results, questions with their answers, orders with
    what they did, and files. With --all, --kind or --json: what the session or a trace holds,
    field by field; without a session, what belongs to none.
    """
    from foldlog.cli import describe
    from foldlog.cli.ids import UnknownId, check_session

    async with target.connect() as store:
        if session is not None and not (everything or kind or target.json):
            parts = await describe.story(seen(store, at), session)
            if parts:
                out = console()
                for margin, text in story_lines(parts):
                    if out.is_terminal:
                        out.print(beside(margin, text))
                    else:
                        out.print(margin + text, soft_wrap=True)
                return
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
