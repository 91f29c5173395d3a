"""`foldlog replay`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from foldlog.cli.command import command
from foldlog.cli.moments import At, seen, time
from foldlog.cli.options import Target
from foldlog.cli.output import console, moment, print_json_line, printable
from foldlog.cli.trace import Delay, Tail, Trace, last, paced, timed
from foldlog.jsonable import compact, jsonable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from foldlog.models import StoredEvent

_INDENT: Final = 4

Until = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only events up to this time, by their own clock."),
]
Speed = Annotated[
    float | None,
    typer.Option(help="As far apart as they were: 1 for their own pace, 10 for ten times that."),
]


@command
async def replay(
    target: Target,
    trace: Trace,
    at: At = None,
    until: Until = None,
    speed: Speed = None,
    tail: Tail = None,
    delay: Delay = 0.0,
) -> None:
    """Read a trace as it went, each event in full.

    With --json, as JSON lines.
    """
    from foldlog.cli.ids import events_of

    if speed is not None and delay:
        raise typer.BadParameter("--speed and --delay: one pace at a time")
    if speed is not None and not speed > 0:
        raise typer.BadParameter("--speed: it is above 0")
    async with target.connect() as store:
        name, events = await events_of(store, trace, seen(store, at))
    if until is not None:
        end = time(until).timestamp()
        events = [event for event in events if event.ts <= end]
    events = last(events, tail)
    out = console()
    if not target.json:
        out.print(f"trace {printable(name)}: {_counted(events)}", style="bold")
    pace = paced(events, delay) if speed is None else timed(events, speed)
    async for place, event in pace:
        if target.json:
            print_json_line(event)
        else:
            out.print(_heading(event, f"{place}/{len(events)}"), soft_wrap=True)
            _print_fields(out, event)


def _counted(events: list[StoredEvent]) -> str:
    return "1 event" if len(events) == 1 else f"{len(events):,} events"


def _heading(event: StoredEvent, place: str) -> Text:
    from rich.text import Text

    return Text.assemble(
        ("\n" + place, "dim"),
        "  ",
        (printable(event.kind), "bold cyan"),
        "  ",
        (printable(event.node_name) + "  " if event.node_name else "", "green"),
        (moment(event.ts), "dim"),
    )


def _print_fields(out: Console, event: StoredEvent) -> None:
    """Print the payload's fields, with their texts as they were written, indented.

    A terminal's width breaks long lines; a program that reads them gets them whole.
    """
    from rich.padding import Padding
    from rich.text import Text

    for key, value in jsonable(event.payload).items():
        if value is None:
            continue
        field = Text.assemble((f"{printable(key)}: ", "dim"), _text(value))
        if out.is_terminal:
            out.print(Padding(field, (0, 0, 0, _INDENT), expand=False))
        else:
            for line in field.split(allow_blank=True):
                out.print(Text(" " * _INDENT) + line, soft_wrap=True)


def _text(value: object) -> str:
    if not isinstance(value, str):
        return printable(compact(value))
    return "\n".join(printable(line) for line in value.splitlines())
