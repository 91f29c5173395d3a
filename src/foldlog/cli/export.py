"""`foldlog export`, `foldlog backup` and `foldlog restore`."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foldlog.cli import completing
from foldlog.cli.command import command
from foldlog.cli.moments import MOMENT_HELP, moment
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json
from foldlog.cli.progress import progress_bar
from foldlog.cli.standard import DASH, readable

if TYPE_CHECKING:
    from foldlog.exporting import Exported, ExportProgress, RestoreProgress
    from foldlog.opening import Store

NewFile = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="A new file; compressed if its name ends in .gz.", dir_okay=False
    ),
]
Input = Annotated[Path, typer.Argument(metavar="FILE", help="The file; - is standard input.")]


class Format(StrEnum):
    """What an export is."""

    JSONL = "jsonl"
    PARQUET = "parquet"


@command
async def export(
    target: Target,
    file: NewFile,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Only what belongs to this session.",
            autocompletion=completing.session_ids,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="MOMENT", help=f"Only what was stored after it: {MOMENT_HELP}."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="MOMENT", help="Only what was stored up to it.")
    ] = None,
    format: Annotated[
        Format, typer.Option(help="Parquet has a row an envelope, and is not imported.")
    ] = Format.JSONL,
) -> None:
    """Write what the log holds to a new file.

    The file is for reading, and `foldlog restore` brings it back. - is standard output.
    """
    from foldlog.cli.ids import check_recorded
    from foldlog.exporting import export_lines

    which = {
        "session_id": session,
        "since": None if since is None else moment(since),
        "until": None if until is None else moment(until),
    }
    if format is Format.PARQUET and file == DASH:
        raise typer.BadParameter("--format parquet: a table is a file: name it")
    async with target.connect() as store:
        if session is not None:
            await check_recorded(store, session)
        if file != DASH:
            print_exported(target, file, await _exported(store, file, format, **which))
            return
        async with aclosing(export_lines(store, **which)) as lines:  # type: ignore[arg-type]
            async for some in lines:
                sys.stdout.buffer.write(some)


@command
async def backup(target: Target, file: NewFile) -> None:
    """Write everything to a new file, and check the file.

    Others may write meanwhile.
    """
    from foldlog.exporting import check

    if file == DASH:
        raise typer.BadParameter(
            "a backup is a file, which is read back: name one; `foldlog export` writes to "
            "standard output"
        )
    async with target.connect() as store:
        made = await _exported(store, file)
    await asyncio.to_thread(check, file)
    print_exported(target, file, made)


@command
async def restore(target: Target, file: Input) -> None:
    """Bring a backup, an export or a bundle into an empty namespace."""
    with readable(file) as path:
        await restored(target, path)


async def restored(target: Target, file: Path) -> None:
    """Bring an export back, and say so."""
    from foldlog.exporting import read_header, restore

    header = await asyncio.to_thread(read_header, file)
    async with target.connect(make=True, shards=header.shards) as store:
        with progress_bar("Restoring") as advance:

            def on_progress(progress: RestoreProgress) -> None:
                advance(*progress, f"{progress.done:,} of {progress.total:,}")

            brought = await restore(store, file, on_progress=on_progress)
    if target.json:
        print_json(brought._asdict())
    else:
        there = f", {brought.present:,} were there already" if brought.present else ""
        console().print(f"{brought.records:,} records and {brought.blobs:,} blobs restored{there}")


async def _exported(
    store: Store, file: Path, format: Format = Format.JSONL, **which: Any
) -> Exported:
    from foldlog.exporting import export, export_parquet

    write = export_parquet if format is Format.PARQUET else export

    with progress_bar("Exporting") as advance:

        def on_progress(progress: ExportProgress) -> None:
            word = f"{progress.records:,} records, {progress.blobs:,} blobs"
            advance(progress.done, progress.total, word)

        return await write(store, file, on_progress=on_progress, **which)


def print_exported(target: Target, file: Path, made: Exported) -> None:
    """Say what was written."""
    if target.json:
        print_json({**made._asdict(), "until": str(made.until), "file": str(file)})
    else:
        console().print(
            f"{file}: {made.records:,} records and {made.blobs:,} blobs, up to {made.until}",
            soft_wrap=True,
            markup=False,
            highlight=False,
        )
