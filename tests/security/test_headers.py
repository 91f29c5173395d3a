"""What stands in a message's headers is foldlog's own, whatever a caller saves."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
import pytest

import foldlog
from foldlog import ArtifactScope
from foldlog.log.embedded import EmbeddedServer
from foldlog.testing.values import HOSTILE_IDS, HOSTILE_NAMES
from tests.support.build import event, steering, task, trajectory, update
from tests.support.stores import fresh_namespace

SMUGGLED = [
    "x\r\nNats-Rollup: all",
    "x\r\n\r\nNats-TTL: 1s",
    "Nats-Msg-Id: x",
    "Nats-Expected-Last-Sequence: 0",
    "x\nNats-Schedule: @every 1s",
    "PUB foldlog.x 1\r\nx\r\n",
]
TEXTS = sorted({*SMUGGLED, *HOSTILE_IDS[::3], *HOSTILE_NAMES})
OWN = {
    "Nats-Msg-Id",
    "Nats-Expected-Last-Subject-Sequence",
    "Nats-Batch-Id",
    "Nats-Batch-Sequence",
    "Nats-Batch-Commit",
}
OF_BLOBS = {"Nats-TTL", "Nats-Expected-Last-Subject-Sequence"}


async def save(store: foldlog.Store, text: str) -> None:
    """Put `text` wherever a caller may put some."""
    await asyncio.gather(
        store.save_update(update(text, text, task_id=text, content={text: text})),
        store.save_task(task(text, text, description=text)),
        store.save_steering(steering(text, text, payload={text: text})),
        store.save_event(event(text, kind=text, node_name=text, payload={"headers": {text: text}})),
        store.save_trajectory(text, text, trajectory(text)),
        store.save_memory_state(text, {text: text}),
        store.save_planner_state(text, {"Nats-Rollup": "all", text: text}),
        store.artifact_store.put_text(
            text,
            mime_type=text,
            filename=text,
            namespace=text,
            meta={"Nats-TTL": "1s"},
            scope=ArtifactScope(session_id=text),
        ),
    )


@pytest.mark.parametrize("atomic", [False, True], ids=["side by side", "atomic"])
async def test_no_header_comes_from_a_caller(embedded_path: Path, atomic: bool) -> None:
    namespace = fresh_namespace()
    async with foldlog.connect(path=embedded_path, namespace=namespace) as store:
        for text in TEXTS:
            if atomic:
                async with store.atomic():
                    await save(store, text)
            else:
                await save(store, text)
        server = await EmbeddedServer.join(embedded_path, timeout=60)
        try:
            await _check(server, namespace)
        finally:
            await server.leave()
        assert len(await store.sessions()) == len(TEXTS)


async def _check(server: EmbeddedServer, namespace: str) -> None:
    """Look at every message of the namespace's streams, as the server has it."""
    client = await nats.connect(server.url, user=server.user, password=server.password)
    async with client:
        jetstream = client.jetstream()
        for stream, allowed in (
            (f"FOLDLOG_{namespace}_0", OWN),
            (f"FOLDLOG_{namespace}_blobs", OF_BLOBS),
        ):
            state = (await jetstream.stream_info(stream)).state
            assert state.messages > 50
            looked = 0
            for seq in range(state.first_seq, state.last_seq + 1):
                msg = await jetstream.get_msg(stream, seq)
                looked += 1
                assert set(msg.headers or {}) <= allowed, (stream, seq, msg.headers)
                assert not any(c in v for v in (msg.headers or {}).values() for c in "\r\n")
            assert looked == state.messages
