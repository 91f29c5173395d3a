"""`foldlog rebuild`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json, printable, table
from foldlog.cli.progress import progress_bar

if TYPE_CHECKING:
    from foldlog.store import RebuildProgress, RebuildReport


@command
async def rebuild(
    target: Target,
    projection: Annotated[
        str | None, typer.Option(help="Only this projection's views, as events or tasks.")
    ] = None,
) -> int:
    """Fold every view again from the first record of the log, and say what that gave."""
    async with target.connect() as store:
        with progress_bar("Rebuilding") as advance:

            def on_progress(progress: RebuildProgress) -> None:
                word = f"{progress.envelopes:,} envelopes"
                advance(progress.done, progress.total, word)

            report = await store.rebuild(projection, on_progress=on_progress)
    if target.json:
        print_json(report)
    else:
        _show(report)
    return 1 if report.differing else 0


def _show(report: RebuildReport) -> None:
    out = console()
    shown = table("projection", ">views")
    for name, views in sorted(report.projections.items()):
        shown.add_row(name, f"{views:,}")
    out.print(shown)
    out.print(
        f"\n{report.views:,} views from {report.envelopes:,} envelopes in {report.seconds:.2f} s"
    )
    for view in report.differing:
        out.print(f"differs from what was served: {printable(view)}", style="red")
