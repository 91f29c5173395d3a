"""`foldlog archive`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json, printable

Everything = Annotated[
    bool, typer.Option("--everything", help="All that there is, whatever the limits say.")
]
Forget = Annotated[
    str | None,
    typer.Option("--forget", metavar="FILE", help="Give up a damaged or lost file of the archive."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask before --forget.")]


@command
async def archive(
    target: Target, everything: Everything = False, forget: Forget = None, yes: Yes = False
) -> None:
    """Move the oldest records to the archive, once.

    $FOLDLOG_ARCHIVE names the archive. With --forget it moves nothing.
    """
    if forget is not None:
        await _forget(target, forget, yes=yes)
        return
    async with target.connect() as store:
        moved = await store.archive(everything=everything)
    if target.json:
        print_json(moved._asdict())
        return
    out = console()
    out.print(
        f"{moved.records:,} records ({moved.raw_bytes:,} bytes) moved, "
        f"{moved.merges} merges of segments"
    )
    if moved.held:
        out.print(
            f"another archiver holds {moved.held} shard(s), which were left: try again in a minute"
        )


async def _forget(target: Target, file: str, *, yes: bool) -> None:
    if not yes:
        if target.json or not sys.stdin.isatty():
            raise typer.BadParameter("--yes is needed where nobody can be asked")
        question = f"Give up {printable(file)}, and all records that it held, for good?"
        typer.confirm(question, abort=True, err=True)
    async with target.connect() as store:
        done = await store.archive(forget=file)
    if target.json:
        print_json({"file": done.forgotten, "lost": done.lost})
    else:
        console().print(f"{printable(done.forgotten or '')}: {printable(done.lost)}")
