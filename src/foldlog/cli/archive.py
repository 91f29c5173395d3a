"""`foldlog archive`."""

from __future__ import annotations

from typing import Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.options import Target
from foldlog.cli.output import console, print_json

Everything = Annotated[
    bool, typer.Option("--everything", help="All that there is, whatever the limits say.")
]


@command
async def archive(target: Target, everything: Everything = False) -> None:
    """Move the oldest records to the archive, once.

    $FOLDLOG_ARCHIVE names the archive.
    """
    async with target.connect() as store:
        moved = await store.archive(everything=everything)
    if target.json:
        print_json(moved._asdict())
    else:
        console().print(
            f"{moved.records:,} records ({moved.raw_bytes:,} bytes) moved, "
            f"{moved.merges} merges of segments"
        )
