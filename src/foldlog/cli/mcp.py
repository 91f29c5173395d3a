"""`foldlog mcp`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import print_json_line


@command
async def mcp(
    target: Target,
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve HTTP on this port of 127.0.0.1 instead; 0 takes a free one.",
        ),
    ] = None,
) -> None:
    """Let AI agents ask what happened: a server of the Model Context Protocol, which only reads.

    It talks over standard input and output to the program that starts it, such as Claude Code.
    """
    from foldlog.mcp import check_installed

    check_installed()
    from foldlog.mcp.serving import serve_http, serve_stdio

    async with target.connect(read_only=True) as store:
        if http is not None:
            await serve_http(store, port=http, announce=lambda *found: _announce(target, *found))
            return
        await serve_stdio(store)
    # A thread of the SDK may still read the input, for which Python would wait; and version 1 has
    # closed the output.
    os._exit(0)


def _announce(target: Target, url: str, token: str) -> None:
    if target.json:
        print_json_line({"url": url, "token": token})
    else:
        typer.echo(f"MCP is at {url}\nAuthorization: Bearer {token}\nCtrl-C ends it")
