"""What `foldlog rebuild` and `foldlog verify` share: both fold views again, and tell of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from foldlog.cli import completing
from foldlog.cli.ids import UnknownId
from foldlog.cli.output import console, printable, table
from foldlog.cli.progress import Advance

if TYPE_CHECKING:
    from foldlog.opening import Store
    from foldlog.store import RebuildProgress, RebuildReport, VerifyReport, ViewDifference

Projection = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Only this projection's views, as events or tasks.",
        autocompletion=completing.kind_names,
    ),
]


def check_projection(store: Store, name: str | None) -> None:
    """Raise UnknownId if the store has no projection of that name."""
    from foldlog.store.core import core_of

    known = core_of(store).kinds
    if name is not None and name not in known:
        raise UnknownId("projection", name, known, f"there are {', '.join(known)}")


def advancing(advance: Advance) -> Callable[[RebuildProgress], None]:
    """What moves a bar along with the records that are folded."""

    def on_progress(progress: RebuildProgress) -> None:
        advance(progress.records, progress.of_records, f"{progress.envelopes:,} envelopes")

    return on_progress


def show_refolded(report: RebuildReport | VerifyReport) -> None:
    """Print how many views were folded, of each projection and in all, and what differs."""
    out = console()
    shown = table("projection", ">views")
    for name, views in sorted(report.projections.items()):
        shown.add_row(name, f"{views:,}")
    out.print(shown)
    views = sum(report.projections.values())
    out.print(f"\n{views:,} views from {report.envelopes:,} envelopes in {report.seconds:.2f} s")
    for each in report.differing:
        out.print(f"differs: {_words(each)}", style="red")


def _words(difference: ViewDifference) -> str:
    served, rebuilt = difference.served, difference.rebuilt
    return (
        f"{printable(difference.view)}: {served.envelopes:,} envelopes, {served.digest} -> "
        f"{rebuilt.envelopes:,}, {rebuilt.digest}; {printable(difference.first)}"
    )
