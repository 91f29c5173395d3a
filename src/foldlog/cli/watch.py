"""`foldlog watch`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from foldlog.cli import completing
from foldlog.cli.command import command
from foldlog.cli.lines import event_line, steering_line, update_line
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json_line

if TYPE_CHECKING:
    from rich.text import Text

    from foldlog.opening import Store


class Kind(StrEnum):
    """What can be watched."""

    UPDATES = "updates"
    STEERING = "steering"
    EVENTS = "events"


@command
async def watch(
    target: Target,
    key: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="A session; with --kind events a trace.",
            autocompletion=completing.watched_ids,
        ),
    ],
    kind: Annotated[Kind, typer.Option(help="What to watch.")] = Kind.UPDATES,
    since: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Begin after this id. Without: at the first."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Only what concerns this task.", autocompletion=completing.task_ids
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many.")] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for an ID that is not there yet.")
    ] = False,
) -> None:
    """Print what there is, then what comes, until Ctrl-C."""
    if kind is Kind.EVENTS and (since is not None or task is not None):
        raise typer.BadParameter("--since and --task are for updates and steering")
    from foldlog.cli.ids import check_recorded, check_trace

    out = console()
    async with target.connect(make=wait) as store:
        if not wait:
            await (check_trace if kind is Kind.EVENTS else check_recorded)(store, key)
        async with aclosing(_follow(store, kind, key, since, task)) as items:
            shown = 0
            async for item in items:
                if target.json:
                    print_json_line(item)
                else:
                    out.print(_line(kind, item), soft_wrap=True)
                shown += 1
                if shown == limit:
                    return


def _follow(
    store: Store, kind: Kind, key: str, since: str | None, task: str | None
) -> AsyncGenerator[Any, None]:
    items: AsyncIterator[Any]
    match kind:
        case Kind.UPDATES:
            items = store.watch_updates(key, after=since, task_id=task)
        case Kind.STEERING:
            items = store.watch_steering(key, after=since, task_id=task)
        case Kind.EVENTS:
            items = store.watch_events(key)
    return cast(AsyncGenerator[Any, None], items)


def _line(kind: Kind, item: Any) -> Text:
    match kind:
        case Kind.UPDATES:
            return update_line(item)
        case Kind.STEERING:
            return steering_line(item)
        case Kind.EVENTS:
            return event_line(item)
