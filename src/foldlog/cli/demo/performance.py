"""The acts in their order, on one store with three connections."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Final

from foldlog.cli.demo import acts
from foldlog.cli.demo.kill import Killed, kill_and_return, kill_proofs, not_killed
from foldlog.cli.demo.ledger import Ledger
from foldlog.cli.demo.observer import Observer
from foldlog.cli.demo.proof import Proof
from foldlog.cli.demo.stage import Stage
from foldlog.cli.demo.transcript import Transcript, read_transcript
from foldlog.cli.options import Target
from foldlog.opening import Store

_CROWD: Final = 8
"""Saves in flight at the kill, at least, where the conversations have so many."""

Connect = Callable[[], Awaitable[Store]]
Conclude = Callable[[Store, list[Proof]], Awaitable[bool]]
"""Shows what was proved, those that failed included, and says whether all passed."""


async def perform(target: Target, file: Path, stage: Stage, conclude: Conclude) -> bool:
    """Perform every act, and return what `conclude` makes of the proofs and of the store.

    Raises:
        ImportFailed: the file holds no conversation.
        Others of `foldlog.errors`: the log cannot be used, so that nothing can be shown.
    """
    with _place(target) as place:
        # A store of the user may hold the same conversations already, and they are to go in now.
        prefix = f"demo-{secrets.token_hex(3)}-" if place is target else ""
        transcript = read_transcript(file, prefix=prefix)
        async with AsyncExitStack() as stack:

            async def connect() -> Store:
                return await stack.enter_async_context(place.connect(make=True))

            writer, beside = await connect(), await connect()
            health = await writer.health()
            stage.announce(f"foldlog on nats-server {health.server_version}, at {health.url}")
            if health.embedded is not None:
                stage.note(f"an embedded server, in {health.embedded.path}; acked means fsynced")
            if prefix:
                stage.note(f"what is imported stays there: its sessions begin with {prefix}")

            stage.announce(
                f"Importing {len(transcript.conversations)} conversations; a second connection "
                f"watches {len(transcript.watched)}"
            )
            sessions = [plan.trace_id for plan in transcript.watched]
            async with Observer(beside, sessions, stage.item) as observer:
                proofs, reader = await _import(writer, connect, transcript, prefix, stage)
                proofs.append(await acts.watched(observer, transcript))
                proofs.append(await acts.identical(reader, transcript))
                proofs.append(await acts.imported_again(reader, transcript, prefix))
            proofs.append(await acts.resumed(writer, reader, f"{prefix}approval"))

            stage.announce("Dropping every view, and folding the log from its first record")
            with stage.progress("  Rebuilding") as on_progress:
                proofs.append(await acts.rebuilt(reader, transcript, on_progress))
            return await conclude(reader, proofs)


async def _import(
    writer: Store, connect: Connect, transcript: Transcript, prefix: str, stage: Stage
) -> tuple[list[Proof], Store]:
    """Import with a kill in the middle, where the server is the demo's own to kill.

    Returns the proofs, and a connection that was made after the kill.
    """
    if (await writer.health()).embedded is None:
        imported = await acts.import_file(writer, transcript, prefix)
        skipped = not_killed("a server at a URL is not the demo's to kill")
        return [imported, skipped], await connect()

    crowd = min(_CROWD, transcript.least_at_once)
    ledger = Ledger(writer, begun=transcript.records // 2, crowd=crowd)

    async def interrupt() -> tuple[Killed | None, Store]:
        killed, reader = await kill_and_return(
            writer, ledger, reconnect=connect, on_kill=stage.killed
        )
        if killed is not None:
            stage.back(killed)
        return killed, reader

    interruption = asyncio.create_task(interrupt())
    try:
        imported = await acts.import_file(ledger, transcript, prefix, interruption)
        ledger.end()
        killed, reader = await interruption
    finally:
        interruption.cancel()
        await asyncio.gather(interruption, return_exceptions=True)
    return [imported, *kill_proofs(killed)], reader


@contextmanager
def _place(target: Target) -> Iterator[Target]:
    """Where to perform: what the user named; else a directory that is removed afterwards."""
    if target.url is not None or target.path is not None:
        yield target
        return
    with tempfile.TemporaryDirectory(prefix="foldlog-demo-") as directory:
        yield dataclasses.replace(target, path=Path(directory))
