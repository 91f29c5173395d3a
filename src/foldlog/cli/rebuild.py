"""`foldlog rebuild`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json, printable, table
from foldlog.cli.progress import Advance, progress_bar

if TYPE_CHECKING:
    from foldlog.store import Difference, RebuildProgress, RebuildReport


@command
async def rebuild(
    target: Target,
    projection: Annotated[
        str | None, typer.Option(help="Only this projection's views, as events or tasks.")
    ] = None,
) -> int:
    """Fold every view again from the log, compare, and have reads answered from that."""
    async with target.connect() as store:
        with progress_bar("Rebuilding") as advance:
            report = await store.rebuild(projection, on_progress=advancing(advance))
    if target.json:
        print_json(report)
    else:
        _show(report)
    return 1 if report.differing else 0


def advancing(advance: Advance) -> Callable[[RebuildProgress], None]:
    """What moves a bar along with the records that are folded."""

    def on_progress(progress: RebuildProgress) -> None:
        advance(progress.records, progress.of_records, f"{progress.envelopes:,} envelopes")

    return on_progress


def show_views(projections: Mapping[str, int], envelopes: int, seconds: float) -> None:
    """Print how many views were folded, of each projection and in all."""
    out = console()
    shown = table("projection", ">views")
    for name, views in sorted(projections.items()):
        shown.add_row(name, f"{views:,}")
    out.print(shown)
    views = sum(projections.values())
    out.print(f"\n{views:,} views from {envelopes:,} envelopes in {seconds:.2f} s")


def show_differences(differing: Sequence[Difference], changed: Sequence[Difference]) -> None:
    """Print what was served otherwise, and what another version of a projection had otherwise."""
    out = console()
    for each in differing:
        out.print(f"differs: {_words(each)}", style="red")
    for each in changed:
        was, now = each.served.version, each.rebuilt.version
        out.print(f"version {was} -> {now}: {_words(each)}")


def _words(difference: Difference) -> str:
    served, rebuilt = difference.served, difference.rebuilt
    return (
        f"{printable(difference.view)}: {served.envelopes:,} envelopes, {served.digest} -> "
        f"{rebuilt.envelopes:,}, {rebuilt.digest}; {printable(difference.first)}"
    )


def _show(report: RebuildReport) -> None:
    if report.is_resumed:
        console().print("went on with a rebuild that was cut short\n")
    show_views(report.projections, report.envelopes, report.seconds)
    show_differences(report.differing, report.changed)
