"""`foldlog demo`: import, watch, kill, recover, compare, resume, rebuild."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json
from foldlog.cli.ui import Browser

if TYPE_CHECKING:
    from foldlog.cli.demo.proof import Proof
    from foldlog.opening import Store


@command
async def demo(
    target: Target,
    file: Annotated[
        Path | None,
        typer.Argument(help="Conversations, JSON or JSONL; without, those that come along."),
    ] = None,
    ui: Annotated[
        bool, typer.Option("--ui", help="Show the conversations on a page, until Ctrl-C.")
    ] = False,
    browser: Browser = True,
) -> int:
    """See the log survive the kill of its server.

    The server is killed while conversations go in, and nothing is lost.

    Works in a directory of its own, which is removed afterwards, unless --path or --url says where.
    """
    from foldlog.cli.demo.performance import perform
    from foldlog.cli.demo.scene import play
    from foldlog.cli.demo.stage import Stage
    from foldlog.cli.ui import announce
    from foldlog.importer import demo_transcript
    from foldlog.ui.serving import serve

    stage = Stage(console(), silent=target.json)

    async def conclude(store: Store, proofs: list[Proof]) -> bool:
        passed = all(proof.passed is not False for proof in proofs)
        if target.json:
            print_json({"passed": passed, "proofs": [proof.document for proof in proofs]})
        else:
            stage.verdict(proofs)
        if ui:
            await play(store)
            await serve(store, browser=browser, announce=lambda url: announce(target, url))
        return passed

    with _without_connection_log():
        return 0 if await perform(target, file or demo_transcript(), stage, conclude) else 1


@contextmanager
def _without_connection_log() -> Iterator[None]:
    """Log no lost connection: the demo kills the server itself, and says so."""
    logger = logging.getLogger("foldlog.connection")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
