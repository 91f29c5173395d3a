"""`foldlog erase`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.completing import SessionId
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json, printable, table

if TYPE_CHECKING:
    from foldlog.store import Erased


@command
async def erase(
    target: Target,
    session: SessionId,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> int:
    """Remove a session, and show that it is gone.

    Prints what was removed, then reads back in every way there is.
    """
    if not yes:
        if target.json or not sys.stdin.isatty():
            raise typer.BadParameter("--yes is needed where nobody can be asked")
        typer.confirm(f"Erase session {printable(session)} for good?", abort=True, err=True)
    from foldlog.cli.ids import check_recorded

    async with target.connect() as store:
        await check_recorded(store, session)
        erased = await store.erase_session(session)
    if target.json:
        print_json(erased)
    else:
        _show(erased)
    return 1 if erased.readable else 0


def _show(erased: Erased) -> None:
    out = console()
    if erased.removed:
        shown = table("removed", ">envelopes")
        for family, envelopes in erased.removed.items():
            shown.add_row(family, f"{envelopes:,}")
        out.print(shown)
        out.print(f"\n{erased.payload_bytes:,} bytes of payloads")
    else:
        out.print("there was nothing to remove")
    if erased.blobs:
        out.print(f"{erased.blobs:,} large values, such as artifacts")
    if erased.readable:
        for what in erased.readable:
            out.print(f"can still be read: {printable(what)}", style="red")
        return
    out.print(f"read back {erased.looked_at:,} subjects in every way there is: nothing can be read")
    if erased.on_disk:
        parts = f"files of the data directory hold {erased.on_disk:,} part(s) of it"
        out.print(f"{parts}, or somebody else has saved the same", style="red")
    elif erased.on_disk == 0:
        out.print("no file of the data directory holds a part of it")
