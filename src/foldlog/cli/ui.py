"""`foldlog ui`."""

from __future__ import annotations

from typing import Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import print_json_line

Browser = Annotated[
    bool, typer.Option("--browser/--no-browser", help="Open the page in your browser.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")]


@command
async def ui(
    target: Target,
    port: Port = 0,
    browser: Browser = True,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Show, and let nobody answer, steer or fork.")
    ] = False,
) -> None:
    """Show what agents did, in your browser, until Ctrl-C. Streams are at /streams."""
    from foldlog.streams import application
    from foldlog.ui.serving import serve

    async with target.connect() as store:
        await serve(
            store,
            port=port,
            browser=browser,
            read_only=read_only,
            streams=application(store, authorize=lambda *_: True),  # the page has let them in
            announce=lambda url: announce(target, url),
        )


def announce(target: Target, url: str) -> None:
    """Say where the page is."""
    if target.json:
        print_json_line({"url": url})
    else:
        typer.echo(f"foldlog is at {url}\nCtrl-C ends it")
