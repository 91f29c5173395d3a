"""`foldlog verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json, printable
from foldlog.cli.progress import progress_bar
from foldlog.cli.refolding import Projection, advancing, check_projection, show_refolded

if TYPE_CHECKING:
    from foldlog.store import VerifyReport


@command
async def verify(target: Target, projection: Projection = None) -> int:
    """Compare what reads return with the log.

    Folds every view again, and looks at every record.
    """
    async with target.connect() as store:
        check_projection(store, projection)
        with progress_bar("Verifying") as advance:
            report = await store.verify(projection, on_progress=advancing(advance))
    if target.json:
        print_json(report)
    else:
        _show(report)
    return 0 if report.is_good else 1


def _show(report: VerifyReport) -> None:
    show_refolded(report)
    out = console()
    for finding in report.findings:
        words = f"{printable(finding.where)} at sequence {finding.sequence}: "
        out.print(words + printable(finding.reason), style="red")
    for loss in report.accepted:
        out.print(f"accepted loss: {printable(loss.where)}: {printable(loss.reason)}")
    if report.is_good:
        out.print("what is served is what the log says")
