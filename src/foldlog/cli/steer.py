"""`foldlog steer`."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

import foldlog
from foldlog.cli import completing
from foldlog.cli.command import command
from foldlog.cli.completing import SessionId
from foldlog.cli.options import Target
from foldlog.cli.output import print_json

if TYPE_CHECKING:
    from foldlog.models import SteeringEventType


class Source(StrEnum):
    """Who can steer."""

    USER = "user"
    SYSTEM = "system"
    AGENT = "agent"


@command
async def steer(
    target: Target,
    session: SessionId,
    task: Annotated[str, typer.Argument(help="The task's id.", autocompletion=completing.task_ids)],
    type: Annotated[
        str,
        typer.Argument(
            help="INJECT_CONTEXT, REDIRECT, CANCEL, PRIORITIZE, PAUSE, RESUME, APPROVE, REJECT or "
            "USER_MESSAGE; lower case will do.",
            autocompletion=completing.steering_types,
        ),
    ],
    text: Annotated[
        str | None, typer.Option(help="The payload's text: for context and messages.")
    ] = None,
    payload: Annotated[
        str | None, typer.Option(help="The payload, or the rest of it, as a JSON object.")
    ] = None,
    trace: Annotated[str | None, typer.Option(help="The trace it concerns.")] = None,
    hard: Annotated[
        bool, typer.Option("--hard", help="With CANCEL: the step under way is cancelled, too.")
    ] = False,
    source: Annotated[Source, typer.Option(help="Who steers.")] = Source.USER,
    event_id: Annotated[
        str | None, typer.Option(help="An id of your own: saving it again has no effect.")
    ] = None,
) -> None:
    """Steer a task or a run, and print the event's id.

    PAUSE, RESUME, PRIORITIZE and CANCEL change the task; a run obeys before its next step.
    APPROVE and REJECT decide about the patch that their payload's `patch_id` names. An unknown task
    is refused.
    """
    from foldlog.cli.ids import check_task
    from foldlog.errors import NotFound

    event = foldlog.SteeringEvent(
        session_id=session,
        task_id=task,
        event_type=_type(type),
        payload=_payload(text, payload) | ({"hard": True} if hard else {}),
        trace_id=trace,
        source=source.value,
    )
    if event_id is not None:
        event.event_id = event_id
    foldlog.validate_steering_event(event)
    async with target.connect() as store, store.session(session) as opened:
        try:
            has_effect = await opened.steer(event)
        except NotFound:
            await check_task(store, session, task)
            raise
        if not has_effect:
            typer.echo(
                "foldlog: there was nothing to decide, or the event was seen before", err=True
            )
    saved = foldlog.sanitize_steering_event(event)
    if target.json:
        print_json(saved)
        return
    typer.echo(saved.event_id)
    if saved.payload != event.payload:
        typer.echo("foldlog: the payload was cut to the limits of steering", err=True)


def _type(name: str) -> SteeringEventType:
    try:
        return foldlog.SteeringEventType(name.upper().replace("-", "_"))
    except ValueError:
        known = ", ".join(foldlog.SteeringEventType)
        raise typer.BadParameter(f"{name!r} is none of {known}", param_hint="TYPE") from None


def _payload(text: str | None, payload: str | None) -> dict[str, Any]:
    try:
        fields = json.loads(payload) if payload is not None else {}
    except ValueError as error:
        raise typer.BadParameter(f"not JSON: {error}", param_hint="--payload") from error
    if not isinstance(fields, dict):
        raise typer.BadParameter("not a JSON object", param_hint="--payload")
    return fields if text is None else {**fields, "text": text}
