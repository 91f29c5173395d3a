"""What is stored beside the log while its stream has no leader for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from foldlog.log.jetstream import JetStreamLog
from foldlog.log.jetstream.connection import ReplyLost
from foldlog.subjects import snapshot
from tests.support.binary import nats_server
from tests.support.cluster import LocalCluster
from tests.support.stores import fresh_namespace

pytestmark = pytest.mark.skipif(nats_server() is None, reason="no nats-server is installed here")

_RECOVERY = 60.0  # seconds; an election takes up to ten


@pytest.mark.long
async def test_what_nobody_serves_is_sent_again_to_the_next_leader() -> None:
    async with (
        LocalCluster() as cluster,
        asyncio.timeout(_RECOVERY),
        opened(cluster.urls[0], namespace := fresh_namespace()) as log,
    ):
        family = log.namespace.wildcard(0).removesuffix(">")
        before, after = snapshot(f"{family}before", 1), snapshot(f"{family}after", 1)
        assert await log.side.put([(before, b"1")])
        found = (await log.side.describe_by_leader()).cluster
        assert found is not None
        assert found.leader is not None
        leader = cluster.names.index(found.leader)
        async with opened(cluster.urls[leader - 1], namespace) as other:
            await cluster.kill(leader)
            assert await put_again(other, after)
            assert await other.side.get([before, after]) == [b"1", b"2"]


async def put_again(log: JetStreamLog, name: str) -> bool:
    """Put a value; again where the reply to it was lost with the leader."""
    while True:
        with suppress(ReplyLost):
            return bool(await log.side.put([(name, b"2")]))


@asynccontextmanager
async def opened(url: str, namespace: str) -> AsyncIterator[JetStreamLog]:
    """A log that waits for an election, and stays with one server."""
    log = await JetStreamLog.open(url, namespace, timeout=_RECOVERY / 2)
    try:
        yield log
    finally:
        await log.close()
