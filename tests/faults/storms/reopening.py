"""Stores that open in the midst of an election: their high-water marks may raise no false alarm."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

import foldlog
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.jetstream.snapshots import JetStreamSnapshots
from foldlog.log.marks import Mark
from tests.faults.storms.crowd import Crowd
from tests.faults.storms.patience import answered

_SUBJECT = "updates/reopened"


async def reopened(url: str, namespace: str, crowd: Crowd, name: str) -> None:
    """Open a store, read at once and again when there is an ack, save, and close.

    Opening holds the log against its mark, and so does each first read after a lost connection;
    closing writes the mark anew.
    """
    store = await answered(lambda: foldlog.connect(url, namespace=namespace))
    try:
        actor = crowd.joined(name, store)
        await actor.read(_SUBJECT, "strong")
        await crowd.progressed()
        await actor.read(_SUBJECT, "strong")
        await actor.save(_SUBJECT, f"{name}.1")
    finally:
        await store.close()


async def false_alarms(url: str, namespace: str) -> list[str]:
    """What is wrong with the mark of a log that lost nothing, all of whose stores have closed."""
    async with _marks(url, namespace) as marks:
        data, _ = await answered(lambda: marks.mark(0))
    if data is None:
        return ["no store has left a high-water mark"]
    mark = msgspec.json.decode(data, type=Mark)
    return [] if mark.ended is None else [f"its mark has the log end at {mark.ended}: {mark}"]


@asynccontextmanager
async def _marks(url: str, namespace: str) -> AsyncGenerator[JetStreamSnapshots]:
    log = await answered(lambda: JetStreamLog.open(url, namespace))
    try:
        yield JetStreamSnapshots(log)
    finally:
        await log.close()
