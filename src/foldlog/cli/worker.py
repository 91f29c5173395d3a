"""`foldlog worker`."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import print_json_line

if TYPE_CHECKING:
    from foldlog.runs import Durable


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

    functions = _functions(module)
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


def _functions(module: str) -> list[Durable[..., Any]]:
    """The durable functions that stand in a module, which is looked for here, too."""
    from foldlog.runs import Durable

    sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise typer.BadParameter(f"there is no module {module!r} here: {error}") from error
    functions = [each for each in vars(found).values() if isinstance(each, Durable)]
    if not functions:
        raise typer.BadParameter(
            f"{module} has no durable function: decorate one with @foldlog.durable"
        )
    return functions
