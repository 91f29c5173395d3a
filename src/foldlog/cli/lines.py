"""Events, updates and steering as lines for people: one each, however long it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from foldlog.cli.output import moment, printable
from foldlog.jsonable import compact

if TYPE_CHECKING:
    from rich.text import Text

    from foldlog.models import StateUpdate, SteeringEvent, StoredEvent
    from foldlog.story import Part


def event_line(event: StoredEvent) -> Text:
    """When, what, where, and the payload."""
    return line(moment(event.ts), event.kind, event.node_name, compact(event.payload))


def update_line(update: StateUpdate) -> Text:
    """The time, the kind, the task, and the content."""
    kind = str(update.update_type)
    return line(moment(update.created_at), kind, update.task_id, compact(update.content))


def steering_line(event: SteeringEvent) -> Text:
    """When, what, for which task, by whom, and the payload."""
    kind = f"{event.event_type} by {event.source}"
    return line(moment(event.created_at), kind, event.task_id, compact(event.payload))


def story_lines(parts: Iterable[Part]) -> Iterator[tuple[Text, Text]]:
    """A story: a line a day, and below it the parts of that day, each as its margin and its words.

    Times are UTC.
    """
    from rich.text import Text

    day = ""
    for part in parts:
        before, (day, _, clock) = day, moment(part.at).partition(" ")
        if day != before:
            yield Text(day, "bold"), Text()
        yield from _part_lines(part, clock)


def _part_lines(part: Part, when: str) -> Iterator[tuple[Text, Text]]:
    """When, what, and below it what became of it, indented."""
    from rich.text import Text

    what = part.line
    indent = "  " + "    " * part.depth
    colour = "red" if what.tone == "failed" else "yellow" if part.waits else "bold cyan"
    said = f": {printable(what.text)}" if what.text else ""
    waits = (" (nobody has answered yet)", "yellow") if part.waits else ""
    margin = Text.assemble((when, "dim"), indent)
    yield margin, Text.assemble((printable(what.what), colour), said, waits)
    blank = Text(" " * len(when) + indent + "  ")
    for each, text in zip(part.more, part.outcomes(), strict=True):
        yield blank, Text(printable(text), "red" if each.tone == "failed" else "")


def line(when: str, kind: str, where: str | None, content: str) -> Text:
    """The parts side by side, in their colours; foreign text cannot move the cursor."""
    from rich.text import Text

    parts = [(when, "dim"), (printable(kind), "bold cyan")]
    if where is not None:
        parts.append((printable(where), "green"))
    return Text("  ").join(Text(*part) for part in [*parts, (printable(content), "")])


def fields(value: Any, path: str = "") -> Iterator[str]:
    """A value as lines, one a field, by its path; fields without a value are left out."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from fields(each, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list) and any(isinstance(each, dict | list) for each in value):
        for index, each in enumerate(value):
            yield from fields(each, f"{path}[{index}]")
    elif value not in (None, {}, [], ""):
        text = printable(value if isinstance(value, str) else compact(value))
        yield f"{printable(path)}: {text}" if path else text
