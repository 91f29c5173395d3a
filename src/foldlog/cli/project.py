"""`foldlog project`: tables of the log in the user's own database."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.modules import declared_in
from foldlog.cli.options import Target
from foldlog.cli.output import print_json_line
from foldlog.cli.progress import progress_bar

if TYPE_CHECKING:
    from foldlog.position import LogPosition


@command
async def project(
    target: Target,
    module: Annotated[str, typer.Argument(help="The module with projectors: costs, or shop.rows.")],
    to: Annotated[
        str, typer.Option("--to", help="sqlite:///FILE, duckdb:///FILE, or postgresql://...")
    ],
    once: Annotated[bool, typer.Option("--once", help="End when all is projected.")] = False,
    park: Annotated[
        list[str] | None,
        typer.Option(help="Leave out the record that this projector refuses; may be repeated."),
    ] = None,
) -> None:
    """Have the projectors of a module fill their tables, until Ctrl-C or SIGTERM."""
    import foldlog
    from foldlog.projectors import Projector

    how = "decorate a function with @foldlog.table or @foldlog.projector"
    projectors = declared_in(module, Projector, "projector", how)
    async with target.connect() as store:
        running = foldlog.Projecting(store, projectors, to=to, parks=park or ())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, running.stop)
        head = await store.position()
        waiting = {each.name for each in projectors}
        with progress_bar("Projecting") as advance:

            def on_progress(name: str, position: LogPosition) -> None:
                if name not in waiting:
                    return
                done, total = (sum(each.seq for each in at.shards) for at in (position, head))
                advance(min(done, total), total, f"{name} at {position}")
                if head <= position:
                    waiting.discard(name)
                    if target.json:
                        print_json_line({"projector": name, "position": str(position)})
                    else:
                        typer.echo(f"{name} has caught up")

            await running.run(once=once, on_progress=on_progress)
