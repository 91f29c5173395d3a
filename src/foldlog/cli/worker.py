"""`foldlog worker`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.modules import declared_in
from foldlog.cli.options import Target
from foldlog.cli.output import print_json_line


@command
async def worker(
    target: Target,
    module: Annotated[
        str, typer.Argument(help="The module with durable functions: agent, or shop.jobs.")
    ],
    slots: Annotated[int, typer.Option(min=1, help="How many runs it does at once.")] = 64,
    queue: Annotated[
        list[str] | None, typer.Option(help="Take runs of this queue only; may be repeated.")
    ] = None,
    lease: Annotated[
        float, typer.Option(help="Seconds after which it is held for dead if it is silent.")
    ] = 10.0,
) -> None:
    """Do the durable functions of a module, until Ctrl-C or SIGTERM.

    Then runs go on to their next step, and are handed on to other workers.
    """
    import foldlog
    from foldlog.runs import Durable

    how = "decorate one with @foldlog.durable"
    functions = declared_in(module, Durable, "durable function", how)
    async with target.connect(make=True) as store:
        if "opentelemetry.sdk.metrics" in sys.modules:  # by the module, or by what runs this
            from foldlog.telemetry import instrument

            instrument(store)
        working = foldlog.Worker(store, functions, slots=slots, queues=queue or (), lease=lease)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, working.stop)
        facts = {"pid": os.getpid(), "slots": slots, "functions": [each.name for each in functions]}
        if target.json:
            print_json_line(facts)
        else:
            names = ", ".join(f"{each.name} {each.version}" for each in functions)
            print(f"doing {names}; Ctrl-C ends", flush=True)  # noqa: T201 - for who started it
        await working.run()
