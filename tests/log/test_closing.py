"""A log closes in bounded time, however many shards it has and whatever its server does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from foldlog.errors import AppendUnknown
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.jetstream.client import Outgoing
from foldlog.log.packing import MAX_BATCH_MESSAGES
from foldlog.subjects import Namespace, Subject
from tests.faults.simulation import clock
from tests.log.test_outcomes import Reply, Server, append, refusal

TIMEOUT = 5.0
SHARDS = Namespace(shards=4)


class Slow(Server):
    """A server that never acks, and says of everything else, late, that it has none."""

    def forbids(self, subject: str) -> bool:
        return False

    async def request_each(
        self, messages: list[Outgoing], *, timeout: float, asks: int
    ) -> list[Reply | None]:
        await asyncio.sleep(timeout)
        return [None] * asks

    async def request(self, *args: Any, timeout: float, **options: Any) -> Reply:
        await asyncio.sleep(timeout)
        return refusal(10037, "no message found")


def subjects_of(shard: int, count: int) -> list[Subject]:
    """So many subjects of one shard."""
    found, number = list[Subject](), 0
    while len(found) < count:
        subject = SHARDS.subject("updates", f"{number}")
        number += 1
        if subject.shard == shard:
            found.append(subject)
    return found


def test_shards_close_side_by_side_within_one_timeout() -> None:
    async def main(loop: clock.VirtualLoop) -> float:
        log = JetStreamLog(Slow(), SHARDS, replicas=1, timeout=TIMEOUT)  # type: ignore[arg-type]
        # Each part of a bulk append has a time of its own, so these take several timeouts.
        bulks = [subjects_of(shard, 3 * MAX_BATCH_MESSAGES) for shard in range(4)]
        writing = [
            asyncio.create_task(log.append([append("1", each) for each in subjects]))
            for subjects in bulks
        ]
        await asyncio.sleep(0.1)
        began = loop.time()
        await log.close()
        took = loop.time() - began
        for each in writing:
            with pytest.raises(AppendUnknown):
                await each
        return took

    assert clock.run(main) <= TIMEOUT


def test_marks_that_nobody_stores_are_given_up_within_the_timeout() -> None:
    async def main(loop: clock.VirtualLoop) -> float:
        log = JetStreamLog(Slow(), SHARDS, replicas=1, timeout=TIMEOUT)  # type: ignore[arg-type]
        for shard in log._shards:
            shard.gate.appended(7)
        await asyncio.sleep(0.1)
        began = loop.time()
        await log.close()
        return loop.time() - began

    assert clock.run(main) <= TIMEOUT
