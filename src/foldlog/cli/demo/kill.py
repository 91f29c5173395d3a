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
from foldlog.store import Store


@dataclass(frozen=True, slots=True)
class Killed:
    """A kill and its aftermath. Times in seconds; `missing` are messages that were acked."""

    pid: int
    new_pid: int | None
    in_flight: int
    acked: int
    missing: int
    outage: float


async def kill_and_return(
    store: Store,
    ledger: Ledger,
    *,
    reconnect: Callable[[], Awaitable[Store]],
    on_kill: Callable[[int, int], None],
) -> tuple[Killed, Store]:
    """Kill the server of `store` with saves in flight; return what a new connection finds.

    `reconnect` opens that connection, which becomes the caller's. It is asked for every message
    that was acked before the kill, and for nothing that was repeated since.
    """
    embedded = (await store.health()).embedded
    if embedded is None or embedded.pid is None:
        raise LogUnavailable("the embedded server is not running")
    await ledger.moment()
    acked = {trace: list(events) for trace, events in ledger.acked.items()}
    in_flight = ledger.in_flight
    began = time.perf_counter()
    os.kill(embedded.pid, signal.SIGKILL)
    on_kill(embedded.pid, in_flight)

    again = await reconnect()
    histories = await asyncio.gather(
        *(again.load_history(trace, consistency="strong") for trace in acked)
    )
    outage = time.perf_counter() - began
    missing = sum(
        event not in history
        for events, history in zip(acked.values(), histories, strict=True)
        for event in events
    )
    now = (await again.health()).embedded
    killed = Killed(
        pid=embedded.pid,
        new_pid=now.pid if now else None,
        in_flight=in_flight,
        acked=sum(map(len, acked.values())),
        missing=missing,
        outage=outage,
    )
    return killed, again


def kill_proofs(killed: Killed) -> list[Proof]:
    """That the server died and came back, and that what was acked before is there."""
    return [
        Proof(
            name="killed",
            claim="The server was killed and came back",
            passed=killed.new_pid not in (None, killed.pid),
            figure=f"SIGKILL to pid {killed.pid} with {killed.in_flight} saves in flight",
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
            figure=f"{killed.acked - killed.missing} of {killed.acked} messages on the disk",
            seconds=killed.outage,
            facts={"acked": killed.acked, "found": killed.acked - killed.missing},
        ),
    ]
