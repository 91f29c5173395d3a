"""Durable saves of many writers, beside single publishes on the same server, fsync on.

    python -m benchmarks.writers [--writers 256] [--sessions 100] [--saves 40] [--rounds 5]

Each round interleaves the contenders; the table shows medians with the lowest and highest, and
the ratio to the single publishes of the same round.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable

import foldlog
from foldlog import StateUpdate, StoredEvent, UpdateType
from foldlog.log.jetstream import JetStreamLog

TEXT = "x" * 300


async def together(
    writers: int, saves: int, save: Callable[[int, int], Awaitable[object]]
) -> float:
    """Saves a second of `writers` concurrent writers that each await every save."""

    async def writer(number: int) -> None:
        for turn in range(saves):
            await save(number, turn)

    began = time.perf_counter()
    await asyncio.gather(*(writer(number) for number in range(writers)))
    return writers * saves / (time.perf_counter() - began)


async def measure(writers: int, sessions: int, saves: int, rounds: int) -> None:
    """Run the rounds and print the table."""
    with tempfile.TemporaryDirectory() as path:
        async with foldlog.connect(path=path) as store:
            log = store.log
            assert isinstance(log, JetStreamLog)
            prefix = log.namespace.wildcard(0).removesuffix(">")

            async def publish(number: int, turn: int) -> None:
                await log.connection.request(
                    f"{prefix}raw.{number % sessions}",
                    TEXT.encode(),
                    timeout=10,
                    headers={"Nats-Msg-Id": secrets.token_hex(12)},
                )

            async def update(number: int, turn: int) -> None:
                await store.save_update(
                    StateUpdate(
                        session_id=f"s{number % sessions}",
                        task_id="t",
                        update_id=secrets.token_hex(8),
                        update_type=UpdateType.PROGRESS,
                        content={"text": TEXT, "turn": turn},
                    )
                )

            async def event(number: int, turn: int) -> None:
                payload = {"text": TEXT, "turn": turn, "number": number}
                trace = f"t{number % sessions}"
                await store.save_event(
                    StoredEvent(trace, time.time(), "node_success", "node", None, payload)
                )

            contenders = {"single publish": publish, "save_update": update, "save_event": event}
            rates: dict[str, list[float]] = {name: [] for name in contenders}
            for _ in range(rounds):
                for name, save in contenders.items():
                    rates[name].append(await together(writers, saves, save))
            health = await store.health()
            print(
                f"nats-server {health.server_version}, durability {health.durability}, "
                f"{writers} writers, {sessions} sessions, {rounds} rounds of {saves} saves each"
            )
            base = rates["single publish"]
            for name, found in rates.items():
                ratios = [rate / one for rate, one in zip(found, base, strict=True)]
                print(
                    f"{name:16} {statistics.median(found):9,.0f}/s "
                    f"[{min(found):,.0f} .. {max(found):,.0f}]  {statistics.median(ratios):5.2f}x"
                )


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writers", type=int, default=256)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--saves", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    asyncio.run(measure(given.writers, given.sessions, given.saves, given.rounds))


if __name__ == "__main__":
    main()
