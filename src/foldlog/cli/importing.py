"""`foldlog import`."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.export import restored
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json, printable, table
from foldlog.cli.progress import progress_bar
from foldlog.cli.standard import readable
from foldlog.errors import ImportFailed

if TYPE_CHECKING:
    from foldlog.importer import ImportProgress, ImportReport


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
    with ExitStack() as inputs:
        paths = [inputs.enter_context(readable(file)) for file in files]
        return await _import(target, paths, prefix)


async def _import(target: Target, paths: list[Path], prefix: str) -> int:
    from foldlog.exporting import is_export
    from foldlog.importer import import_conversations

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
    for name, appended in report.appended.items():
        shown.add_row(name, f"{appended:,}", f"{report.present[name]:,}")
    out = console()
    out.print(shown)
    out.print(f"\n{report.conversations:,} conversations, {report.messages:,} messages")
