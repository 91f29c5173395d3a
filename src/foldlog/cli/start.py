"""`foldlog start`: have workers do a durable function."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import print_json, printable
from foldlog.jsonable import jsonable

if TYPE_CHECKING:
    from foldlog.runs import Handle


@command
async def start(
    target: Target,
    function: Annotated[str, typer.Argument(help="The durable function's name.")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(help="Its arguments: city=Oslo, days=3, tags='[\"a\"]'. JSON, or a text."),
    ] = None,
    id: Annotated[str | None, typer.Option(help="The run's id; starting it again is safe.")] = None,
    session: Annotated[str | None, typer.Option(help="Its session; else one of that id.")] = None,
    queue: Annotated[str | None, typer.Option(help="The queue.")] = None,
    key: Annotated[str, typer.Option(help="Of one key few go on at once: a user's id.")] = "",
    priority: Annotated[int, typer.Option(help="Higher ones begin first.")] = 0,
    delay: Annotated[float | None, typer.Option(help="Seconds until it begins.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait, and print its result.")] = False,
) -> None:
    """Have workers do a function, and print the id of the run."""
    given = dict(argument(each) for each in arguments or ())
    async with target.connect(make=True) as store:
        run: Handle[Any] = await store.start(
            function,
            id=id,
            session_id=session,
            queue=queue,
            key=key,
            priority=priority,
            delay=delay,
            **given,
        )
        result = await run.result() if wait else None
    if target.json:
        facts = {"session_id": run.session_id, "id": run.id}
        print_json(facts | {"result": jsonable(result)} if wait else facts)
    else:
        shown = json.dumps(jsonable(result), ensure_ascii=False) if wait else run.id
        typer.echo(printable(shown))


def argument(text: str) -> tuple[str, Any]:
    """A name and a value, of `name=value`. BadParameter: it is no such text."""
    name, is_named, value = text.partition("=")
    if not is_named or not name.isidentifier():
        raise typer.BadParameter(f"{text!r} is no argument: give name=value, as city=Oslo")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
