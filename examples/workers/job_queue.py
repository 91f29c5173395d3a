"""A queue of jobs on JetStream: work-queue retention, so that a job is there until it is done.

A job that a worker took is offered to another one when it is neither acknowledged nor refreshed for
`ACK_WAIT` seconds: its worker has died. So a job may be begun more than once, and what it does has
to bear that; sessions do.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NoJob
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StreamConfig

import foldlog

ACK_WAIT = 3.0


class Job:
    """A job that was taken. `attempt` counts the workers that did."""

    def __init__(self, message: Msg) -> None:
        self._message = message
        self.data: dict[str, Any] = json.loads(message.data)
        self.attempt: int = message.metadata.num_delivered or 1

    async def ack(self) -> None:
        """It is done, and gone when this returns."""
        await self._message.ack_sync()

    async def nak(self, delay: float) -> None:
        """It is not done: offer it again after so many seconds."""
        await self._message.nak(delay=delay)

    async def drop(self) -> None:
        """It cannot be done: never offer it again."""
        await self._message.term()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep it while its worker lives, however long it takes."""

        async def refresh() -> None:
            while True:
                await asyncio.sleep(ACK_WAIT / 3)
                await self._message.in_progress()

        refreshing = asyncio.create_task(refresh())
        try:
            yield
        finally:
            refreshing.cancel()
            await asyncio.wait([refreshing])


class JobQueue:
    """Jobs by the name of their queue. Made by `open`, lives until the end of its block."""

    def __init__(self, js: JetStreamContext, name: str) -> None:
        self._js = js
        self._stream = f"JOBS_{name}"
        self._subject = f"jobs.{name}"

    @classmethod
    @asynccontextmanager
    async def open(cls, store: foldlog.Store, name: str) -> AsyncIterator[JobQueue]:
        """Open a queue on the server that the store is on."""
        client = await _connected(store)
        try:
            queue = cls(client.jetstream(), name)
            await queue._js.add_stream(
                StreamConfig(
                    name=queue._stream,
                    subjects=[queue._subject],
                    retention=RetentionPolicy.WORK_QUEUE,
                )
            )
            yield queue
        finally:
            await client.close()

    async def put(self, job_id: str, data: dict[str, Any]) -> None:
        """Add a job. Of two with the same id within two minutes, the second has no effect."""
        headers = {"Nats-Msg-Id": job_id}
        await self._js.publish(self._subject, json.dumps(data).encode(), headers=headers)

    async def jobs(self, *, until_empty: bool = False) -> AsyncIterator[Job]:
        """Yield jobs as they come, each to one worker at a time.

        Args:
            until_empty: end when every job there is has been acknowledged, whoever had it.
        """
        config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, ack_wait=ACK_WAIT)
        consumer = await self._js.pull_subscribe(
            self._subject, durable="workers", stream=self._stream, config=config
        )
        while not (until_empty and await self.size() == 0):
            try:
                [message] = await consumer.fetch(1, timeout=1)
            except NoJob:
                continue
            yield Job(message)

    async def size(self) -> int:
        """How many jobs are not done yet, those included that a worker has."""
        info = await self._js.stream_info(self._stream)
        return info.state.messages


async def _connected(store: foldlog.Store) -> Client:
    """A connection of our own to the store's server. Here goes how *you* sign in."""
    health = await store.health()
    if health.embedded is None:
        return await nats.connect(os.environ["FOLDLOG_URL"])
    file = Path(health.embedded.path, "server.json")
    server = json.loads(await asyncio.to_thread(file.read_text))
    return await nats.connect(health.url, user=server["user"], password=server["password"])
