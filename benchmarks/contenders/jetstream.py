"""The limits of the log: JetStream used directly, with bytes that nobody encodes or folds."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Sequence
from typing import Any, ClassVar, Final

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import RePublish, StorageType, StreamConfig
from nats.js.errors import APIError

from benchmarks.site import Site
from benchmarks.unavailable import Unavailable
from benchmarks.workload import BODY
from foldlog import FoldlogError, StateUpdate, SteeringEvent
from foldlog.log.embedded import EmbeddedServer

STREAM: Final = "RAW"
_TIMEOUT: Final = 30.0  # seconds


class Publish:
    """One `js.publish` of nats-py for each save."""

    name: ClassVar[str] = "JetStream publish"
    promise: ClassVar[str] = "fsynced by nats-server (sync_interval: always)"
    republish: ClassVar[RePublish | None] = None

    def __init__(self, site: Site) -> None:
        self._site = site
        self._server: EmbeddedServer | None = None
        self._client: Client

    async def open(self) -> None:
        """Start the server that foldlog embeds, on data of its own, and make a stream."""
        try:
            self._server = await EmbeddedServer.join(self._site.directory("jetstream"))
        except FoldlogError as error:
            raise Unavailable(str(error)) from error
        user, password = self._server.user, self._server.password
        await self._connect([self._server.url], 1, user=user, password=password)

    async def _connect(self, urls: Sequence[str], replicas: int, **signed_in: str) -> None:
        self._client = await nats.connect(servers=list(urls), **signed_in)
        self._jetstream = self._client.jetstream(timeout=_TIMEOUT)
        self._stream = f"{STREAM}-{secrets.token_hex(4)}"
        await self._jetstream.add_stream(
            StreamConfig(
                name=self._stream,
                subjects=[f"{self._stream}.>"],
                storage=StorageType.FILE,
                num_replicas=replicas,
                allow_direct=True,
                allow_atomic=True,
                republish=self.republish,
            )
        )

    async def facts(self) -> dict[str, str]:
        """What the server says of itself and of the stream."""
        info = await self._jetstream.stream_info(self._stream)
        version = self._client.connected_server_version
        return {
            "nats-server": f"{version.major}.{version.minor}.{version.patch}",
            "replicas": str(info.config.num_replicas),
        }

    async def close(self) -> None:
        """Disconnect; the embedded server stops with it."""
        await self._client.close()
        if self._server is not None:
            await self._server.leave()

    def _subject(self, session_id: str) -> str:
        return f"{self._stream}.{session_id}"

    async def save(self, update: StateUpdate) -> None:
        """Publish a message to the session's subject, and wait for its ack."""
        await self._jetstream.publish(self._subject(update.session_id), BODY)


class Batches(Publish):
    """Atomic batches (ADR-50 of NATS): every message a record of its own, one ack for all."""

    name: ClassVar[str] = "JetStream batch"

    async def save_together(self, updates: Sequence[StateUpdate]) -> None:
        """Publish a message for each of up to 1,000 updates, as one batch."""
        batch = secrets.token_hex(8)
        last = len(updates)
        for number, update in enumerate(updates, 1):
            headers = {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
            subject = self._subject(update.session_id)
            if number < last:
                await self._client.publish(subject, BODY, headers=headers)
        headers["Nats-Batch-Commit"] = "1"
        answer = await self._client.request(subject, BODY, headers=headers, timeout=_TIMEOUT)
        ack: dict[str, Any] = json.loads(answer.data)
        if "error" in ack:
            raise APIError.from_error(ack["error"])


class Request(Publish):
    """One request to the server for each read: a direct get beyond the end of a subject."""

    name: ClassVar[str] = "JetStream request"
    promise: ClassVar[str] = "answered by nats-server"

    async def list_updates(self, session_id: str, since: str | None = None) -> list[Msg]:
        """Ask for what follows the end; the answer is that there is nothing."""
        asked = {"seq": 1 << 60, "next_by_subj": self._subject(session_id)}
        await self._client.request(
            f"$JS.API.DIRECT.GET.{self._stream}", json.dumps(asked).encode(), timeout=_TIMEOUT
        )
        return []


class Republished(Publish):
    """A publish that the server repeats to a plain subscriber of a second connection."""

    name: ClassVar[str] = "JetStream republish"
    republish: ClassVar[RePublish | None] = RePublish(src=">", dest="live.>")

    async def open(self) -> None:
        """Connect a second time, for the subscribers."""
        await super().open()
        assert self._server is not None
        self._watching = await nats.connect(
            self._server.url, user=self._server.user, password=self._server.password
        )

    async def close(self) -> None:
        """Disconnect both."""
        await self._watching.close()
        await super().close()

    async def steer(self, event: SteeringEvent) -> None:
        """Publish the event's id, and wait for the ack."""
        await self._jetstream.publish(self._subject(event.session_id), event.event_id.encode())

    async def watch(self, session_id: str) -> AsyncGenerator[str | None]:
        """Yield the ids that are published from the first None on."""
        queue: asyncio.Queue[Msg] = asyncio.Queue()
        subscription = await self._watching.subscribe(
            f"live.{self._subject(session_id)}", cb=queue.put
        )
        await self._watching.flush()
        try:
            yield None
            while True:
                yield (await queue.get()).data.decode()
        finally:
            await subscription.unsubscribe()


class _OnCluster(Publish):
    """The same on three servers, each message kept three times."""

    promise: ClassVar[str] = "fsynced by two of three nats-servers (sync_interval: always)"

    async def open(self) -> None:
        """Make a stream of three replicas on the run's cluster."""
        await self._connect(await self._site.cluster(), 3)


class ReplicatedPublish(_OnCluster):
    """One `js.publish` for each save, on three servers."""

    name: ClassVar[str] = "JetStream publish R3"


class ReplicatedBatches(_OnCluster, Batches):
    """Atomic batches on three servers."""

    name: ClassVar[str] = "JetStream batch R3"
