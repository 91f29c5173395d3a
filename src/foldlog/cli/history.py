"""`foldlog history`."""

from __future__ import annotations

from foldlog.cli.command import command
from foldlog.cli.lines import event_line
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json_line
from foldlog.cli.trace import Delay, Tail, Trace, last, paced


@command
async def history(target: Target, trace: Trace, tail: Tail = None, delay: Delay = 0.0) -> None:
    """List a trace's events, one a line.

    By their own time. With --json, as JSON lines.
    """
    from foldlog.cli.ids import events_of

    async with target.connect() as store:
        _, found = await events_of(store, trace)
    events = last(found, tail)
    out = console()
    async for _, event in paced(events, delay):
        if target.json:
            print_json_line(event)
        else:
            out.print(event_line(event), soft_wrap=True)
