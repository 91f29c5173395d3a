"""`foldlog replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foldlog.cli.command import command
from foldlog.cli.jsonable import compact, jsonable
from foldlog.cli.options import Target
from foldlog.cli.output import console, moment, print_json_line, printable
from foldlog.cli.trace import Delay, Tail, Trace, last, paced

if TYPE_CHECKING:
    from rich.console import RenderableType

    from foldlog.models import StoredEvent


@command
async def replay(target: Target, trace: Trace, tail: Tail = None, delay: Delay = 0.0) -> None:
    """Read a trace as it went, each event in full. With --json, as JSON lines."""
    async with target.connect() as store:
        events = last(await store.load_history(trace), tail)
    out = console()
    if not target.json:
        out.print(f"trace {printable(trace)}: {len(events)} events", style="bold")
    async for place, event in paced(events, delay):
        if target.json:
            print_json_line(event)
        else:
            out.print(_block(event, f"{place}/{len(events)}"))


def _block(event: StoredEvent, place: str) -> RenderableType:
    """A heading, and the payload's fields with their texts as they were written."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    heading = Text.assemble(
        ("\n" + place, "dim"),
        "  ",
        (printable(event.kind), "bold cyan"),
        "  ",
        (printable(event.node_name) + "  " if event.node_name else "", "green"),
        (moment(event.ts), "dim"),
    )
    fields = [(k, v) for k, v in jsonable(event.payload).items() if v is not None]
    texts = [Text.assemble((f"{printable(k)}: ", "dim"), _text(v)) for k, v in fields]
    return Group(heading, Padding(Group(*texts), (0, 0, 0, 4), expand=False))


def _text(value: object) -> str:
    if not isinstance(value, str):
        return printable(compact(value))
    return "\n".join(printable(line) for line in value.splitlines())
