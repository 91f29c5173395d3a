"""`foldlog traces`."""

from __future__ import annotations

from typing import Annotated

import typer

from foldlog.cli.command import command
from foldlog.cli.completing import SessionId
from foldlog.cli.options import Target
from foldlog.cli.output import print_json, print_names, print_nothing


@command
async def traces(
    target: Target,
    session: SessionId,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 50,
) -> None:
    """List a session's traces, the newest first.

    The last one, session:ID, is what the session writes down of its tasks, updates and steering.
    """
    from foldlog.cli.ids import check_session, session_traces

    async with target.connect() as store:
        found = await session_traces(store, session, limit)
        if not found:
            await check_session(store, session)
    if target.json:
        print_json(found)
    elif found:
        print_names(found)
    else:
        print_nothing("no traces")
