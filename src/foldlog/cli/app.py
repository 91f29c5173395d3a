"""The commands, in the groups and the order in which `foldlog --help` lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

import foldlog
from foldlog.cli.answer import answer, confirm, retract
from foldlog.cli.archive import archive
from foldlog.cli.bundle import bundle, verify_bundle
from foldlog.cli.demo import demo
from foldlog.cli.diff import diff
from foldlog.cli.doctor import doctor
from foldlog.cli.erase import erase
from foldlog.cli.export import backup, export, restore
from foldlog.cli.fork import fork
from foldlog.cli.history import history
from foldlog.cli.importing import import_
from foldlog.cli.mcp import mcp
from foldlog.cli.project import project
from foldlog.cli.queues import queue, queues
from foldlog.cli.rebuild import rebuild
from foldlog.cli.replay import replay
from foldlog.cli.schedule import schedule, unschedule
from foldlog.cli.serve import serve
from foldlog.cli.sessions import sessions
from foldlog.cli.show import show
from foldlog.cli.sql import sql
from foldlog.cli.start import start
from foldlog.cli.steer import steer
from foldlog.cli.tasks import tasks
from foldlog.cli.traces import traces
from foldlog.cli.ui import ui
from foldlog.cli.updates import updates
from foldlog.cli.verify import verify
from foldlog.cli.waiting import waiting
from foldlog.cli.watch import watch
from foldlog.cli.worker import worker

app: typer.Typer = typer.Typer(
    name="foldlog",
    help="The place where AI agents keep their state: one append-only log, folded into views.",
    no_args_is_help=True,
    # An unexpected error is a bug: a report of it needs Python's own traceback.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: Final[dict[str, dict[str, Callable[..., None]]]] = {
    "Begin": {"demo": demo, "import": import_, "ui": ui},
    "Read": {
        "sessions": sessions,
        "show": show,
        "tasks": tasks,
        "updates": updates,
        "traces": traces,
        "history": history,
        "replay": replay,
        "watch": watch,
        "diff": diff,
        "sql": sql,
        "mcp": mcp,
        "project": project,
    },
    "Steer and answer": {
        "waiting": waiting,
        "answer": answer,
        "confirm": confirm,
        "retract": retract,
        "steer": steer,
        "fork": fork,
    },
    "Runs and workers": {
        "start": start,
        "worker": worker,
        "queues": queues,
        "queue": queue,
        "schedule": schedule,
        "unschedule": unschedule,
    },
    "Copy and prove": {
        "export": export,
        "backup": backup,
        "restore": restore,
        "bundle": bundle,
        "verify-bundle": verify_bundle,
    },
    "Operate": {
        "serve": serve,
        "doctor": doctor,
        "verify": verify,
        "rebuild": rebuild,
        "archive": archive,
        "erase": erase,
    },
}
"""By group, in the order of the help."""

for _group, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        app.command(_name, rich_help_panel=_group)(_command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"foldlog {foldlog.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass
