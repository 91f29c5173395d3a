"""`foldlog demo`: import, watch, kill, recover, compare, resume, rebuild."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json


@command
async def demo(
    target: Target,
    file: Annotated[
        Path | None,
        typer.Argument(help="Conversations, JSON or JSONL; without, those that come along."),
    ] = None,
) -> int:
    """See the log survive: its server is killed while conversations go in, and nothing is lost.

    Works in a directory of its own, which is removed afterwards, unless --path or --url says where.
    """
    from foldlog.cli.demo.performance import perform
    from foldlog.cli.demo.stage import Stage
    from foldlog.importer import demo_transcript

    stage = Stage(console(), silent=target.json)
    proofs = await perform(target, file or demo_transcript(), stage)
    passed = all(proof.passed is not False for proof in proofs)
    if target.json:
        print_json({"passed": passed, "proofs": [proof.document for proof in proofs]})
    else:
        stage.verdict(proofs)
    return 0 if passed else 1
