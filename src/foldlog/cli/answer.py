"""`foldlog answer`, `confirm` and `retract`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from foldlog.cli import completing
from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import print_json
from foldlog.errors import NotWaiting

if TYPE_CHECKING:
    from foldlog.models import Answered
    from foldlog.opening import Store

WAITING: Final = "`foldlog waiting` lists what waits"


WaitingId = Annotated[
    str,
    typer.Argument(
        help="The id that `foldlog waiting` shows.", autocompletion=completing.waiting_ids
    ),
]


By = Annotated[str, typer.Option(help="The name of the person who answers.")]


class Verdict(StrEnum):
    """What a person says to a patch or a task; to a question, yes or no."""

    APPROVE = "approve"
    REJECT = "reject"


@command
async def answer(
    target: Target,
    id: WaitingId,
    verdict: Annotated[
        Verdict | None, typer.Argument(help="For a patch, a task, or a question of yes or no.")
    ] = None,
    text: Annotated[str | None, typer.Option(help="What a question is answered with.")] = None,
    value: Annotated[
        str | None, typer.Option(help="What a question is answered with, as JSON.")
    ] = None,
    by: By = "",
) -> None:
    """Answer what waits for a person, once.

    Prints the decision.
    """
    given = _answer(verdict, text, value)
    await _decide(target, id, lambda store: store.answer(id, given, by=by))


@command
async def confirm(
    target: Target,
    id: WaitingId,
    text: Annotated[str | None, typer.Option(help="What the step returned.")] = None,
    value: Annotated[str | None, typer.Option(help="What the step returned, as JSON.")] = None,
    by: By = "",
) -> None:
    """Say that a step whose outcome nobody knew has happened, so that its run goes on.

    Prints the decision.
    """
    given = None if text is None and value is None else _answer(None, text, value)
    await _decide(target, id, lambda store: store.confirm(id, given, by=by))


@command
async def retract(target: Target, id: WaitingId, by: By = "") -> None:
    """Say that a step whose outcome nobody knew has not happened, so that its run does it.

    Prints the decision.
    """
    await _decide(target, id, lambda store: store.retract(id, by=by))


async def _decide(target: Target, id: str, decide: Callable[[Store], Awaitable[Answered]]) -> None:
    from foldlog.cli.ids import UnknownId

    async with target.connect() as store:
        try:
            answered = await decide(store)
        except NotWaiting as error:
            known = [each.id for each in await store.waiting()]
            raise UnknownId("open question, step or pause", id, known, WAITING) from error
    if target.json:
        print_json(answered)
        return
    typer.echo(answered.decision)
    if answered.state is not None:
        print_json(answered.state)


def _answer(verdict: Verdict | None, text: str | None, value: str | None) -> Any:
    if [verdict, text, value].count(None) != 2:
        raise typer.BadParameter("approve, reject, --text or --value: give one of them")
    if verdict is not None:
        return verdict is Verdict.APPROVE
    if value is None:
        return text
    try:
        return json.loads(value)
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--value") from error
