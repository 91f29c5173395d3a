"""`foldlog rebuild`."""

from __future__ import annotations

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import print_json
from foldlog.cli.progress import progress_bar
from foldlog.cli.refolding import Projection, advancing, check_projection, show_refolded


@command
async def rebuild(target: Target, projection: Projection = None) -> int:
    """Rebuild every view from the log.

    Reports what differed before; reads are then answered from the new views.
    """
    async with target.connect() as store:
        check_projection(store, projection)
        with progress_bar("Rebuilding") as advance:
            report = await store.rebuild(projection, on_progress=advancing(advance))
    if target.json:
        print_json(report)
    else:
        show_refolded(report)
    return 1 if report.differing else 0
