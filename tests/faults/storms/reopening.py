"""Stores that open in the midst of an election: their marks may raise no false alarm."""

from __future__ import annotations

import foldlog
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.jetstream.gate import StreamMarks
from tests.faults.storms.crowd import Crowd
from tests.faults.storms.patience import answered

_SUBJECT = "updates/reopened"


async def reopened(url: str, namespace: str, crowd: Crowd, name: str) -> None:
    """Open a store, read at once and again when there is an ack, save, and close.

    Opening compares the log with its mark, and so does each first read after a lost connection;
    closing renews the mark.
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
    log = await answered(lambda: JetStreamLog.open(url, namespace))
    try:
        mark, revision = await answered(StreamMarks(log.side, log.namespace, 0).get)
    finally:
        await log.close()
    if not revision:
        return ["no store has left a mark"]
    return [] if mark.ended is None else [f"its mark has the log end at {mark.ended}: {mark}"]
