"""`foldlog queues` and `foldlog queue`: what waits for workers, and what an operator does to it."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import console, moment, print_json, print_nothing, printable, table

if TYPE_CHECKING:
    from foldlog.runs import AtWork, FailedRun, Queue
    from foldlog_projections.runs.schedules import Scheduled


@command
async def queues(target: Target) -> None:
    """Show queues, workers, schedules, and runs that failed."""
    from foldlog.runs.queues import described

    async with target.connect() as store:
        asked = store.queues
        if target.json:
            print_json(await described(asked))
            return
        found, workers = await asked.all(), await asked.workers()
        schedules, failed = await asked.schedules(), await asked.failed()
    if not (found or workers or schedules or failed):
        print_nothing("no queues, workers or schedules")
        return
    if found:
        _show_queues(found)
    if workers:
        _show_workers(workers)
        _show_runs(workers)
    if schedules:
        _show_schedules(schedules)
    if failed:
        _show_failed(failed)


def _show_queues(found: list[Queue]) -> None:
    shown = table("queue", ">waiting", "!oldest", ">running", ">workers", "limits")
    for each in found:
        limits = ["paused"] if each.paused else []
        limits += [f"{each.at_once} at once"] if each.at_once else []
        limits += [f"{each.per_key} of a key"] if each.per_key else []
        limits += [f"{each.rate} in {each.seconds:g} s"] if each.rate else []
        limits += [f"no worker for {', '.join(each.unserved)}"] if each.unserved else []
        oldest = "-" if each.oldest is None else _age(each.oldest)
        numbers = str(each.waiting), oldest, str(each.held), str(each.workers)
        shown.add_row(printable(each.name), *numbers, printable(", ".join(limits)))
    console().print(shown)


def _show_workers(found: list[AtWork]) -> None:
    shown = table("worker", ">pid", ">runs", ">slots", "functions")
    for each in found:
        names = printable(", ".join(each.functions))
        row = printable(each.host), str(each.pid), str(len(each.runs)), str(each.slots), names
        shown.add_row(*row)
    console().print(shown)


def _show_runs(found: list[AtWork]) -> None:
    shown = table("run", "session", "function", "queue", ">pid", "!since")
    for worker in found:
        for each in worker.runs:
            names = map(printable, (each.id, each.session_id, each.function, each.queue))
            shown.add_row(*names, str(worker.pid), f"{_age(each.since)} ago")
    if shown.row_count:
        console().print(shown)


def _show_schedules(found: list[Scheduled]) -> None:
    shown = table("schedule", "cron", "zone", "function", "!next")
    for each in found:
        names = map(printable, (each.name, each.cron, each.zone, each.function))
        shown.add_row(*names, moment(each.next))
    console().print(shown)


def _show_failed(found: list[FailedRun]) -> None:
    shown = table("failed run", "session", "function", "error")
    for each in found:
        shown.add_row(*map(printable, (each.id, each.session_id, each.function, each.error)))
    console().print(shown)


def _age(since: dt.datetime) -> str:
    seconds = max((dt.datetime.now(dt.UTC) - since).total_seconds(), 0.0)
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class Doing(StrEnum):
    """What is done to a queue."""

    pause = "pause"
    resume = "resume"
    limit = "limit"
    send_again = "send-again"


@command
async def queue(
    target: Target,
    doing: Annotated[Doing, typer.Argument(help="pause, resume, limit or send-again.")],
    name: Annotated[str, typer.Argument(help="The queue; of send-again, the run that failed.")],
    at_once: Annotated[int | None, typer.Option(min=1, help="Runs that go on at once.")] = None,
    per_key: Annotated[int | None, typer.Option(min=1, help="Of those, runs of one key.")] = None,
    rate: Annotated[int | None, typer.Option(min=1, help="Runs handed out in --seconds.")] = None,
    seconds: Annotated[float, typer.Option(help="See --rate.")] = 1.0,
    session: Annotated[
        str | None, typer.Option(help="The session of the run, where it is not named as the run.")
    ] = None,
) -> None:
    """Pause, resume or limit a queue, or send a run again that failed.

    A paused queue drains: what has begun goes on. limit replaces the limits that there were.
    """
    if doing is not Doing.limit and (at_once or per_key or rate):
        raise typer.BadParameter(f"--at-once, --per-key and --rate go with limit, not {doing}")
    async with target.connect() as store:
        match doing:
            case Doing.pause:
                await store.queues.pause(name)
            case Doing.resume:
                await store.queues.resume(name)
            case Doing.send_again:
                await store.queues.send_again(name, session_id=session)
            case Doing.limit:
                await store.queues.limit(
                    name, at_once=at_once, per_key=per_key, rate=rate, seconds=seconds
                )
