"""`foldlog serve`."""

from __future__ import annotations

import asyncio
import signal
from typing import Annotated

import typer

import foldlog
from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import print_json_line

Facts = dict[str, object]

_LOOPBACK = "127.0.0.1"
_OTLP_PORT = 4318


@command
async def serve(
    target: Target,
    show_credentials: Annotated[
        bool, typer.Option("--show-credentials", help="Print the user and the password, too.")
    ] = False,
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve streams over HTTP, on this port of 127.0.0.1; 0 takes a free one.",
        ),
    ] = None,
    otlp: Annotated[
        bool, typer.Option("--otlp", help="Take OpenTelemetry's traces, over HTTP.")
    ] = False,
    otlp_host: Annotated[
        str, typer.Option(help="Where it listens; any other place than this needs a token.")
    ] = _LOOPBACK,
    otlp_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Its port; 0 takes a free one.")
    ] = _OTLP_PORT,
    otlp_token: Annotated[
        str | None,
        typer.Option(
            help="What exporters have to send. A command line can be seen by other users: "
            "better set the variable.",
            envvar="FOLDLOG_OTLP_TOKEN",
            show_default=False,
        ),
    ] = None,
    otlp_all: Annotated[
        bool, typer.Option("--otlp-all", help="Also keep spans that are not of generative AI.")
    ] = False,
) -> None:
    """Run the embedded server, until Ctrl-C or SIGTERM.

    With --http it also serves streams, with --otlp it receives traces; with --url, too, it does
    only that.
    """
    if http is not None and otlp:
        raise typer.BadParameter("--http and --otlp: start a second `foldlog serve` for the other")
    if target.server is not None and not otlp and http is None:
        raise typer.BadParameter("serve runs the embedded server: it has no use for a URL")
    if otlp and otlp_host != _LOOPBACK and not otlp_token:
        raise typer.BadParameter("--otlp-host: others could reach it, so give a --otlp-token")
    async with target.connect(make=True) as store:
        facts = await _facts(target, store, show_credentials)
        if http is not None:
            await _serve_streams(target, store, facts, http)
            return
        if not otlp:
            stop = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stop.set)
            _announce(target, facts)
            await stop.wait()
            return
        from foldlog import serving
        from foldlog.otlp import app

        # DNS rebinding is a danger where no token is asked for.
        hosts = serving.OWN_NAMES if otlp_host == _LOOPBACK else None
        application = app(store, token=otlp_token, hosts=hosts, everything=otlp_all)

        def started(port: int) -> None:
            place = f"[{otlp_host}]" if ":" in otlp_host else otlp_host
            _announce(target, facts | {"otlp": f"http://{place}:{port}"})

        await serving.serve(
            application,
            host=otlp_host,
            port=otlp_port,
            extra="otlp",
            started=started,
            limit_concurrency=1_000,
            timeout_graceful_shutdown=10,
        )


async def _serve_streams(target: Target, store: foldlog.Store, facts: Facts, port: int) -> None:
    from foldlog import serving
    from foldlog.streams import application

    await serving.serve(
        application(store),
        port=port,
        extra="ui",
        started=lambda port: _announce(target, facts | {"http": f"http://{_LOOPBACK}:{port}"}),
        timeout_graceful_shutdown=1,
    )


async def _facts(target: Target, store: foldlog.Store, show_credentials: bool) -> Facts:
    """What there is to know of the server."""
    health = await store.health()
    facts: Facts = {"url": health.url}
    more: Facts = {
        "namespace": health.namespace,
        "durability": health.durability,
        "server_version": health.server_version,
    }
    if target.server is not None:
        return facts | more
    from foldlog.log.embedded.layout import Layout

    layout = Layout.prepare(target.directory)
    facts |= {"path": layout.directory} | more
    facts |= {"credentials_file": layout.description, "log_file": layout.log}
    if show_credentials:
        description = layout.read_description()
        if description is None:
            raise foldlog.ConfigurationError(f"{layout.description} cannot be read")
        facts |= {"user": description.user, "password": description.password}
    return facts


def _announce(target: Target, facts: Facts) -> None:
    if target.json:
        print_json_line(facts)
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        typer.echo(f"{name.replace('_', ' '):<{width}}  {value}")
    typer.echo("serving; Ctrl-C ends it")
