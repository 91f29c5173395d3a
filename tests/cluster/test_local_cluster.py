from __future__ import annotations

import asyncio

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import PubAck, StreamConfig
from nats.js.errors import NoStreamResponseError

from tests.support.binary import nats_server
from tests.support.cluster import LocalCluster

pytestmark = pytest.mark.skipif(nats_server() is None, reason="no nats-server is installed here")


async def test_a_replicated_stream_outlives_a_node() -> None:
    config = StreamConfig(name="smoke", subjects=["smoke"], num_replicas=3)
    async with LocalCluster() as cluster:
        async with await nats.connect(cluster.urls[0]) as client:
            jetstream = client.jetstream(timeout=10)
            created = await jetstream.add_stream(config)
            first = await publish(jetstream, b"three nodes")
            # Neither the node under the client nor the leader: the write needs no election.
            victim = next(
                node
                for node in (1, 2)
                if created.cluster is not None and cluster.names[node] != created.cluster.leader
            )

            await cluster.kill(victim)
            second = await publish(jetstream, b"two nodes")

            await cluster.start(victim)

        async with await nats.connect(cluster.urls[victim]) as client:
            jetstream = client.jetstream(timeout=10)
            stored = [await jetstream.get_msg("smoke", ack.seq) for ack in (first, second)]
            info = await jetstream.stream_info("smoke")

    assert [message.data for message in stored] == [b"three nodes", b"two nodes"]
    assert info.cluster is not None
    assert len(info.cluster.replicas or []) == 2


async def publish(jetstream: JetStreamContext, data: bytes) -> PubAck:
    """Publish as soon as the node that is asked knows where the stream's leader is."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await jetstream.publish("smoke", data)
            except NoStreamResponseError:
                await asyncio.sleep(0.05)
