"""SIGKILL for the demo's own server, at the worst moment, and what is there afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from foldlog.cli.demo.ledger import Ledger
from foldlog.cli.demo.proof import Proof
from foldlog.errors import LogUnavailable
from foldlog.opening import Store


@dataclass(frozen=True, slots=True)
class Killed:
    """A kill and its aftermath.

    `acked` and `missing` count messages: those acked before, and those of them that are gone.
    `outage` is the time until a new connection stood, `reading` until it had read them; seconds.
    """

    pid: int
    new_pid: int | None
    in_flight: int
    acked: int
    missing: int
    outage: float
    reading: float


async def kill_and_return(
    store: Store,
    ledger: Ledger,
    *,
    reconnect: Callable[[], Awaitable[Store]],
    on_kill: Callable[[int, int], None],
) -> tuple[Killed | None, Store]:
    """Kill the server of `store` with saves in flight; return what a new connection finds.

    `reconnect` opens that connection, which becomes the caller's. It is asked for every message
    that was acked before the kill, and no import may be repeated until this returns: it would put
    back what was lost. Without an opportunity nothing is killed.
    """
    embedded = (await store.health()).embedded
    if embedded is None or embedded.pid is None:
        raise LogUnavailable("the embedded server is not running")
    if not await ledger.moment():
        return None, await reconnect()
    acked = {session: list(messages) for session, messages in ledger.acked.items()}
    in_flight = ledger.in_flight
    began = time.perf_counter()
    os.kill(embedded.pid, signal.SIGKILL)
    on_kill(embedded.pid, in_flight)

    again = await reconnect()
    connected = time.perf_counter()
    histories = await asyncio.gather(
        *(again.list_messages(session, consistency="strong") for session in acked)
    )
    read = time.perf_counter()
    found = dict(zip(acked, (set(map(repr, each)) for each in histories), strict=True))
    missing = sum(
        repr(each) not in found[of] for of, messages in acked.items() for each in messages
    )
    now = (await again.health()).embedded
    killed = Killed(
        pid=embedded.pid,
        new_pid=now.pid if now else None,
        in_flight=in_flight,
        acked=sum(map(len, acked.values())),
        missing=missing,
        outage=connected - began,
        reading=read - connected,
    )
    return killed, again


def kill_proofs(killed: Killed | None) -> list[Proof]:
    """That the server died and came back, and that what was acked before is there."""
    if killed is None:
        return [not_killed("the import was over before saves were in flight", passed=False)]
    return [
        Proof(
            name="killed",
            claim="The server was killed and came back",
            passed=killed.new_pid not in (None, killed.pid),
            figure=f"{killed.in_flight} saves in flight; pid {killed.pid}, now {killed.new_pid}",
            seconds=killed.outage,
            facts={
                "pid": killed.pid,
                "new_pid": killed.new_pid,
                "saves_in_flight": killed.in_flight,
            },
        ),
        Proof(
            name="acked",
            claim="Nothing acked was lost",
            passed=killed.missing == 0,
            figure=f"{killed.acked - killed.missing:,} of {killed.acked:,} messages are there",
            seconds=killed.reading,
            facts={"acked": killed.acked, "found": killed.acked - killed.missing},
        ),
    ]


def not_killed(reason: str, *, passed: bool | None = None) -> Proof:
    """That there was no kill, and why: None is what could not be, False what should have been."""
    claim = "The server was killed and came back"
    return Proof("killed", claim, passed, f"not done: {reason}", {"reason": reason})
