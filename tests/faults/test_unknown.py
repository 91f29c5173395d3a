"""Outcomes that are not known: how they are settled, and that no retry makes a second effect."""

from __future__ import annotations

import asyncio
import random

import pytest

import foldlog
from foldlog.store.core import Backend
from foldlog.store.options import Options
from tests.faults.simulation import clock
from tests.faults.simulation.faults import Faults
from tests.faults.simulation.stream import Stream
from tests.faults.simulation.wire import WiredLog
from tests.support.beside import MemoryBlobs
from tests.support.build import update


def test_an_unknown_outcome_is_settled_by_reading_back() -> None:
    clock.run(lambda loop: _told_by_reading())


async def _told_by_reading() -> None:
    rng = random.Random(1)
    log = WiredLog(Stream(rng, lag=0.0), rng, Faults(), timeout=1.0)
    store = foldlog.Store(Backend(log, MemoryBlobs()), Options())
    await store.save_update(update("1"))
    assert len(await store.list_updates("session")) == 1
    log.faults = Faults(lost_ack=1.0, dropped=1.0)  # neither ack nor push
    with pytest.raises(foldlog.AppendUnknown) as unknown:
        await store.save_update(update("2"))
    assert unknown.value.ids == ["2"]
    log.faults = Faults(dropped=1.0)
    # With the default consistency, and long before pushes are no longer trusted.
    assert [item.update_id for item in await store.list_updates("session")] == ["1", "2"]
    await store.close()


def test_no_retry_comes_later_than_the_server_remembers_ids() -> None:
    clock.run(_patient)


async def _patient(loop: clock.VirtualLoop) -> None:
    rng = random.Random(1)
    log = WiredLog(Stream(rng, lag=0.0), rng, Faults(), timeout=1000.0)
    store = foldlog.Store(Backend(log, MemoryBlobs()), Options())
    log.faults = Faults(lost_ack=1.0)
    with pytest.raises(foldlog.AppendUnknown):
        await store.save_update(update("1"))
    assert loop.time() <= 61
    await asyncio.sleep(1000)
    log.faults = Faults()
    held = [
        record
        async for page in log.read(log.namespace.subject("updates", "session"))
        for record in page
    ]
    assert len(held) == 1
    await store.close()


def test_a_reply_that_never_comes_is_not_waited_for_long() -> None:
    """A leader that was killed answers nobody, and the next one is there within seconds."""
    clock.run(_soon)


async def _soon(loop: clock.VirtualLoop) -> None:
    rng = random.Random(1)
    log = WiredLog(Stream(rng, lag=0.0), rng, Faults(), timeout=60.0)
    store = foldlog.Store(Backend(log, MemoryBlobs()), Options())
    log.faults = Faults(vanished=1.0)
    saving = asyncio.create_task(store.save_update(update("1")))
    await asyncio.sleep(1)
    log.faults = Faults()
    await saving
    assert loop.time() < 3
    await store.close()
