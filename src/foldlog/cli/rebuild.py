"""`foldlog rebuild`."""

from __future__ import annotations

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import print_json
from foldlog.cli.progress import progress_bar
from foldlog.cli.refolding import Projection, advancing, show_refolded


@command
async def rebuild(target: Target, projection: Projection = None) -> int:
    """Fold every view again from the log, compare, and have reads answered from that."""
    async with target.connect() as store:
        with progress_bar("Rebuilding") as advance:
            report = await store.rebuild(projection, on_progress=advancing(advance))
    if target.json:
        print_json(report)
    else:
        show_refolded(report)
    return 1 if report.differing else 0
