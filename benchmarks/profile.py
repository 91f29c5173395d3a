"""Where a save and a read spend the program's time, step by step.

    python -m benchmarks.profile

cProfile makes every call dearer, so the shares are what counts, not the times. The server's part
is not in it: that is what `make bench` shows.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import secrets
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import foldlog
from foldlog import StateUpdate, Store, StoredEvent, UpdateType

WRITERS: Final = 256
TURNS: Final = 40
READS: Final = 2_000
TEXT: Final = "x" * 300

STEPS: Final = (
    ("the caller: objects and tasks", ("benchmarks/", "pydantic", "foldlog/models", "uuid")),
    (
        "drafting: checks and encoding",
        ("foldlog/codec", "foldlog/envelope", "foldlog/subjects", "msgspec", "_blake2"),
    ),
    ("the views", ("foldlog/views", "foldlog_projections")),
    ("the log: grouping and outcomes", ("foldlog/log",)),
    ("the store", ("foldlog/",)),
    ("nats-py", ("/nats/",)),
    ("asyncio and the socket", ("asyncio", "select", "socket", "_contextvars")),
)
"""The first step whose part of a path stands in a function's file or name has its time."""

DRAFTING: Final = ("store/payloads", "store/guards", "_drafted")


def step_of(file: str, function: str) -> str:
    """The step to which a function belongs."""
    place = f"{file} {function}"
    if any(part in place for part in DRAFTING):
        return STEPS[1][0]
    return next((name for name, parts in STEPS if any(p in place for p in parts)), "the rest")


async def profiled(run: Callable[[], Awaitable[None]], times: int, title: str) -> None:
    """Print the share of each step in `run`, which does something `times` times."""
    await run()  # once to warm up
    profile = cProfile.Profile()
    profile.enable()
    await run()
    profile.disable()
    shares: Counter[str] = Counter()
    for (file, _, function), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if "epoll" not in function and "kqueue" not in function:  # waiting for the server
            shares[step_of(file, function)] += own
    total = sum(shares.values())
    print(f"\n{title}: {total / times * 1e6:.0f} us each, as cProfile counts\n")
    print("| step | share |\n| --- | --- |")
    for name, own in shares.most_common():
        print(f"| {name} | {own / total:.0%} |")


def update(session: str, number: int, turn: int) -> StateUpdate:
    """An update as an agent streams them."""
    return StateUpdate(
        session_id=session,
        task_id="task",
        update_id=secrets.token_hex(8),
        update_type=UpdateType.PROGRESS,
        content={"text": TEXT, "writer": number, "turn": turn},
    )


async def saves(store: Store, sessions: int) -> None:
    """WRITERS tasks, each of which awaits TURNS saves."""

    async def writer(number: int) -> None:
        for turn in range(TURNS):
            await store.save_update(update(f"s{number % sessions}", number, turn))

    await asyncio.gather(*(writer(number) for number in range(WRITERS)))


async def main() -> None:
    """Profile saves on one session and on one for each writer, and hot reads."""
    with tempfile.TemporaryDirectory() as path:
        async with foldlog.connect(path=Path(path) / "data") as store:
            for sessions in (1, WRITERS):
                await profiled(
                    lambda sessions=sessions: saves(store, sessions),  # type: ignore[misc]
                    WRITERS * TURNS,
                    f"A save, {WRITERS} writers on {sessions} session(s)",
                )
            await store.save_events(
                StoredEvent("trace", float(n), "node", None, None, {"text": TEXT})
                for n in range(100)
            )
            await store.save_update(update("polled", 0, 0))
            (seen,) = await store.list_updates("polled")

            async def histories() -> None:
                for _ in range(READS):
                    await store.load_history("trace")

            async def polls() -> None:
                for _ in range(READS):
                    await store.list_updates("polled", since_id=seen.update_id)

            await profiled(histories, READS, "load_history of 100 events, hot")
            await profiled(polls, READS, "list_updates after the last, hot")


if __name__ == "__main__":
    asyncio.run(main())
