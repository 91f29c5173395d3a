from __future__ import annotations

from urllib.parse import urlsplit

import nats
import pytest
from nats.aio.client import Client
from nats.errors import Error


async def test_serves_jetstream_and_large_messages(container_url: str) -> None:
    async with await nats.connect(container_url) as client:
        jetstream = client.jetstream()
        await jetstream.add_stream(name="smoke", subjects=["smoke"])
        payload = bytes(7 * 1024 * 1024)

        ack = await jetstream.publish("smoke", payload)

        stored = await jetstream.get_msg("smoke", ack.seq)
        await jetstream.delete_stream("smoke")
    assert client.max_payload == 8 * 1024 * 1024
    assert stored.data == payload


async def test_refuses_strangers(container_url: str) -> None:
    address = urlsplit(container_url)

    async def ignore(_: Exception) -> None:
        """The refusal is asserted below; the client would log it as well."""

    client = Client()
    with pytest.raises(Error, match="Authorization Violation"):
        await client.connect(
            f"nats://{address.hostname}:{address.port}", allow_reconnect=False, error_cb=ignore
        )
    await client.close()
