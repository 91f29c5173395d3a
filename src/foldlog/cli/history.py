"""`foldlog history`."""

from __future__ import annotations

from foldlog.cli.command import command
from foldlog.cli.lines import event_line
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json_line
from foldlog.cli.trace import Delay, Tail, Trace, last, paced


@command
async def history(target: Target, trace: Trace, tail: Tail = None, delay: Delay = 0.0) -> None:
    """List a trace's events by their time, one a line. With --json, as JSON lines."""
    async with target.connect() as store:
        events = last(await store.load_history(trace), tail)
    out = console()
    async for _, event in paced(events, delay):
        if target.json:
            print_json_line(event)
        else:
            out.print(event_line(event), soft_wrap=True)
