"""The commands, in the order in which `foldlog --help` lists them."""

from __future__ import annotations

from typing import Annotated

import typer

import foldlog
from foldlog.cli.answer import answer
from foldlog.cli.archive import archive
from foldlog.cli.bundle import bundle, verify_bundle
from foldlog.cli.demo import demo
from foldlog.cli.diff import diff
from foldlog.cli.doctor import doctor
from foldlog.cli.erase import erase
from foldlog.cli.export import backup, export, restore
from foldlog.cli.history import history
from foldlog.cli.importing import import_
from foldlog.cli.rebuild import rebuild
from foldlog.cli.replay import replay
from foldlog.cli.serve import serve
from foldlog.cli.sessions import sessions
from foldlog.cli.sql import sql
from foldlog.cli.steer import steer
from foldlog.cli.tasks import tasks
from foldlog.cli.traces import traces
from foldlog.cli.ui import ui
from foldlog.cli.updates import updates
from foldlog.cli.verify import verify
from foldlog.cli.waiting import waiting
from foldlog.cli.watch import watch

app: typer.Typer = typer.Typer(
    name="foldlog",
    help="The place where AI agents keep their state: one append-only log, folded into views.",
    no_args_is_help=True,
    # An unexpected error is a bug: whoever reports it needs Python's own traceback.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo)
app.command("import")(import_)
app.command("ui")(ui)
app.command("sessions")(sessions)
app.command("traces")(traces)
app.command("history")(history)
app.command("replay")(replay)
app.command("diff")(diff)
app.command("tasks")(tasks)
app.command("updates")(updates)
app.command("steer")(steer)
app.command("waiting")(waiting)
app.command("answer")(answer)
app.command("watch")(watch)
app.command("erase")(erase)
app.command("rebuild")(rebuild)
app.command("verify")(verify)
app.command("archive")(archive)
app.command("export")(export)
app.command("backup")(backup)
app.command("restore")(restore)
app.command("bundle")(bundle)
app.command("verify-bundle")(verify_bundle)
app.command("sql")(sql)
app.command("doctor")(doctor)
app.command("serve")(serve)


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
