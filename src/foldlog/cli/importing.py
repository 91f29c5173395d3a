"""`foldlog import`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from foldlog.cli.command import command
from foldlog.cli.export import restored
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json, printable, table
from foldlog.cli.progress import progress_bar
from foldlog.errors import ImportFailed

if TYPE_CHECKING:
    from foldlog.importer import ImportProgress, ImportReport

_DASH: Final = Path("-")
_STANDARD_INPUT: Final = Path("/dev/stdin")


@command
async def import_(
    target: Target,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="JSON or JSONL files; - is standard input."),
    ],
    prefix: Annotated[
        str, typer.Option(help="What every session and trace id is to begin with.")
    ] = "",
) -> int:
    """Save conversations from files, or restore an export.

    Importing the same again appends nothing.
    """
    from foldlog.exporting import is_export
    from foldlog.importer import import_conversations

    paths = [_STANDARD_INPUT if file == _DASH else file for file in files]
    if any(map(is_export, paths)):
        if len(paths) > 1 or prefix:
            raise typer.BadParameter("an export is imported alone, and without --prefix")
        await restored(target, paths[0])
        return 0
    if not any(path.exists() for path in paths):  # before a store is made for nothing
        raise ImportFailed(f"{paths[0]}: no such file")
    async with target.connect(make=True) as store:
        with progress_bar("Importing") as advance:

            def on_progress(progress: ImportProgress) -> None:
                word = f"{progress.conversations:,} conversations"
                advance(progress.done, progress.total, word)

            report = await import_conversations(
                store, paths, prefix=prefix, on_progress=on_progress
            )
    if target.json:
        print_json(report)
    else:
        _show(report)
    for broken in report.broken:
        typer.echo(f"foldlog: left out: {printable(str(broken))}", err=True)
    return 1 if report.broken else 0


def _show(report: ImportReport) -> None:
    shown = table("what", ">appended", ">there already")
    for each in dataclasses.fields(report.appended):
        appended, present = (getattr(c, each.name) for c in (report.appended, report.present))
        shown.add_row(each.name.replace("_", " "), f"{appended:,}", f"{present:,}")
    out = console()
    out.print(shown)
    out.print(f"\n{report.conversations:,} conversations, {report.messages:,} messages")
