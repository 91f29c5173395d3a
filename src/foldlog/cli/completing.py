"""What the Tab key offers: the ids that a store has.

It asks a server that runs already, for a second at most; it starts and makes nothing. Where that
gives nothing, for whatever reason, nothing is offered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from foldlog.errors import FoldlogError

if TYPE_CHECKING:
    from foldlog.opening import Connecting, Store

DEADLINE: Final = 1.0
"""Seconds that a person waits for what Tab offers."""

_MOST: Final = 200
"""So many ids are offered at most."""

Ask = Callable[["Store", dict[str, Any]], Awaitable[Iterable[str]]]


def session_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """The sessions that hold something."""

    async def ask(store: Store, given: dict[str, Any]) -> Iterable[str]:
        return await store.sessions()

    return _offered(ctx, incomplete, ask)


SessionId = Annotated[str, typer.Argument(help="The session's id.", autocompletion=session_ids)]
"""The argument of the commands that are about one session."""


def trace_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """The traces that have events."""

    async def ask(store: Store, given: dict[str, Any]) -> Iterable[str]:
        from foldlog.cli import ids

        return await ids.trace_ids(store)

    return _offered(ctx, incomplete, ask)


def task_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """The tasks of the session that the line names."""

    async def ask(store: Store, given: dict[str, Any]) -> Iterable[str]:
        from foldlog.cli import ids

        # While an option's value is typed, the arguments before it have not been given names.
        session = given.get("session") or given.get("key") or next(iter(ctx.args), None)
        return await ids.task_ids(store, session) if session else []

    return _offered(ctx, incomplete, ask)


def watched_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """Traces after `--kind events`, else sessions."""
    return (trace_ids if ctx.params.get("kind") == "events" else session_ids)(ctx, incomplete)


def waiting_ids(ctx: typer.Context, incomplete: str) -> list[str]:
    """What waits for a person."""

    async def ask(store: Store, given: dict[str, Any]) -> Iterable[str]:
        return [each.id for each in await store.waiting(limit=_MOST)]

    return _offered(ctx, incomplete, ask)


def kind_names(incomplete: str) -> list[str]:
    """The kinds of views that foldlog has."""
    from foldlog_projections.registry import KINDS

    return [each.name for each in KINDS if each.name.startswith(incomplete)]


def steering_types(incomplete: str) -> list[str]:
    """The types of steering events, as a shell likes to type them."""
    from foldlog.models import SteeringEventType

    names = (each.value.lower().replace("_", "-") for each in SteeringEventType)
    return [name for name in names if name.startswith(incomplete.lower().replace("_", "-"))]


def _offered(ctx: typer.Context, incomplete: str, ask: Ask) -> list[str]:
    given = dict(ctx.params)

    async def found() -> list[str]:
        async with asyncio.timeout(DEADLINE):
            connecting = _running(given)
            if connecting is None:
                return []
            async with connecting as store:
                ids = await ask(store, given)
                return [id for id in ids if id.startswith(incomplete) and id.isprintable()][:_MOST]

    # Whatever is wrong, the line that is being typed must not be disturbed by it.
    logging.disable()
    try:
        with suppress(FoldlogError, TimeoutError, OSError, ValueError, typer.BadParameter):
            return asyncio.run(found())
    finally:
        logging.disable(logging.NOTSET)
    return []


def _running(given: dict[str, Any]) -> Connecting | None:
    """The store that the line names, if its server runs."""
    import foldlog
    from foldlog.cli.options import Target
    from foldlog.log.embedded.layout import HOST, Layout

    path, creds = given.get("path"), given.get("creds")
    target = Target(
        url=given.get("url"),
        path=None if path is None else Path(path),
        namespace=given.get("namespace") or "default",
        creds=None if creds is None else Path(creds),
    )
    if target.server is not None:
        return target.connect()
    layout = Layout(target.directory.absolute())
    server = layout.read_description() if layout.description.is_file() else None
    if server is None:
        return None
    # As a client, and no member: the last member to leave stops the server, a next one starts it.
    return foldlog.connect(
        f"nats://{HOST}:{server.port}",
        namespace=target.namespace,
        create=False,
        timeout=DEADLINE,
        spool=layout.directory / "none",
        user=server.user,
        password=server.password,
    )
