"""`foldlog schedule` and `foldlog unschedule`: runs that begin by the clock."""

from __future__ import annotations

from typing import Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import moment, print_json
from foldlog.cli.start import argument


@command
async def schedule(
    target: Target,
    name: Annotated[str, typer.Argument(help="The schedule's name.")],
    cron: Annotated[str, typer.Argument(help='Minute, hour, day, month, weekday: "30 9 * * 1-5".')],
    function: Annotated[str, typer.Argument(help="The durable function's name.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="Its arguments: city=Oslo, days=3, tags='[\"a\"]'. JSON, or a text."),
    ] = None,
    zone: Annotated[str, typer.Option(help="The time zone: Europe/Oslo.")] = "UTC",
    session: Annotated[str, typer.Option(help="The session of all its runs; else each own.")] = "",
    queue: Annotated[str | None, typer.Option(help="The queue.")] = None,
    key: Annotated[str, typer.Option(help="Of one key few go on at once: a user's id.")] = "",
    priority: Annotated[int, typer.Option(help="Higher ones begin first.")] = 0,
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="Begin what an outage prevented afterwards.")
    ] = False,
) -> None:
    """Have runs of a function begin by a cron line, and print when the first one does."""
    given = dict(argument(each) for each in arguments or ())
    async with target.connect(make=True) as store:
        begins = await store.queues.schedule(
            name,
            cron,
            function,
            zone=zone,
            session_id=session,
            queue=queue,
            key=key,
            priority=priority,
            catch_up=catch_up,
            **given,
        )
    if target.json:
        print_json({"name": name, "next": begins})
    else:
        typer.echo(moment(begins))


@command
async def unschedule(
    target: Target, name: Annotated[str, typer.Argument(help="The schedule's name.")]
) -> None:
    """End a schedule: nothing more begins by it. What has begun goes on."""
    async with target.connect() as store:
        await store.queues.unschedule(name)
