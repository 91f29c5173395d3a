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


@command
async def serve(
    target: Target,
    show_credentials: Annotated[
        bool, typer.Option("--show-credentials", help="Print the user and the password, too.")
    ] = False,
) -> None:
    """Run the embedded server, and keep it running until Ctrl-C or SIGTERM."""
    if target.server is not None:
        raise typer.BadParameter("serve runs the embedded server: it has no use for a URL")
    from foldlog.log.embedded.layout import Layout

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with target.connect(make=True) as store:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        health = await store.health()
        layout = Layout.prepare(target.directory)
        facts: dict[str, object] = {
            "url": health.url,
            "path": layout.directory,
            "namespace": health.namespace,
            "durability": health.durability,
            "server_version": health.server_version,
            "credentials_file": layout.description,
            "log_file": layout.log,
        }
        if show_credentials:
            description = layout.read_description()
            if description is None:
                raise foldlog.ConfigurationError(f"{layout.description} cannot be read")
            facts |= {"user": description.user, "password": description.password}
        if target.json:
            print_json_line(facts)
        else:
            width = max(map(len, facts))
            for name, value in facts.items():
                typer.echo(f"{name.replace('_', ' '):<{width}}  {value}")
            typer.echo("serving; Ctrl-C ends it")
        await stop.wait()
