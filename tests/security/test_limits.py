"""Every limit is there, has a typed error, and is the one that the docs name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import codec
from foldlog.log.memory import MAX_PAYLOAD
from foldlog.log.packing import MAX_BATCH_MESSAGES, OVERHEAD, RECORD_BYTES
from foldlog.subjects import MAX_ID_BYTES
from tests.conftest import OpenStore
from tests.support.build import event, steering, task, trajectory, update
from tests.support.stores import appended

LIMITS = (Path(__file__).parents[2] / "docs/reference/limits.md").read_text("utf-8")

Save = Callable[[foldlog.Store, str], Awaitable[object]]

pytestmark = pytest.mark.parametrize("backend", ["memory", "embedded"], indirect=True)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


# --- ids ----------------------------------------------------------------------------------------

IDS: dict[str, Save] = {
    "session": lambda s, x: s.save_update(update("u", x)),
    "update": lambda s, x: s.save_update(update(x)),
    "task": lambda s, x: s.save_task(task(x)),
    "steering": lambda s, x: s.save_steering(steering(x)),
    "trace": lambda s, x: s.save_event(event(x)),
    "trajectory": lambda s, x: s.save_trajectory(x, "session", trajectory()),
    "token": lambda s, x: s.save_planner_state(x, {}),
    "key": lambda s, x: s.save_memory_state(x, {}),
    "read": lambda s, x: s.list_updates(x),
    "clear": lambda s, x: s.clear_session(x),
    "artifact": lambda s, x: s.artifact_store.get(x),
}


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("letter", ["x", "é", "*"])
async def test_an_id_has_a_longest(store: foldlog.Store, kind: str, letter: str) -> None:
    longest = letter * (MAX_ID_BYTES // len(letter.encode()))
    await IDS[kind](store, longest)
    before = await appended(store)
    with pytest.raises(foldlog.InvalidId, match="may take 16384") as refused:
        await IDS[kind](store, longest + letter)
    assert len(str(refused.value)) < 300
    assert await appended(store) == before


async def test_a_namespace_has_a_longest(store: foldlog.Store) -> None:
    with pytest.raises(foldlog.InvalidId):
        foldlog.memory_store(namespace="x" * (MAX_ID_BYTES + 1))
    assert "16 KiB" in LIMITS


# --- payloads -----------------------------------------------------------------------------------


async def test_an_envelope_has_a_largest(store: foldlog.Store) -> None:
    limit = (await store.health()).max_payload - OVERHEAD
    await store.save_memory_state("key", {"x": b"x" * (limit - 500)})
    before = await appended(store)
    with pytest.raises(foldlog.PayloadTooLarge) as refused:
        await store.save_memory_state("key", {"x": b"x" * limit})
    assert refused.value.limit == limit
    assert refused.value.size > limit
    assert await appended(store) == before
    assert len((await store.load_memory_state("key") or {})["x"]) == limit - 500
    assert MAX_PAYLOAD == 8 * 1024 * 1024
    assert "8 MiB on the embedded server" in LIMITS


async def test_nesting_has_a_deepest(store: foldlog.Store) -> None:
    deepest = nested(codec.MAX_DEPTH - 1)
    await store.save_memory_state("key", {"x": deepest})
    assert await store.load_memory_state("key") == {"x": deepest}
    before = await appended(store)
    for levels in (codec.MAX_DEPTH + 1, 100_000):
        with pytest.raises(foldlog.PayloadError, match="nested deeper than 100"):
            await store.save_memory_state("key", {"x": nested(levels)})
    assert await appended(store) == before
    assert "100 levels" in LIMITS


async def test_a_value_that_holds_itself_is_refused(store: foldlog.Store) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(foldlog.PayloadError):
        await store.save_memory_state("key", {"x": endless})


async def test_a_record_is_closed_at_its_size(store: foldlog.Store) -> None:
    content = "x" * (RECORD_BYTES // 3)
    await store.save_events([event(ts=float(n), payload={"x": content}) for n in range(9)])
    subject = store._core.subject("events", "trace")
    sizes = []
    async for page in store._core.log.read(subject):
        sizes += [sum(len(e.payload) for e in record.envelopes) for record in page]
    assert len(sizes) > 1
    assert max(sizes) <= RECORD_BYTES
    assert "256 KiB" in LIMITS


async def test_an_atomic_block_has_a_longest(store: foldlog.Store) -> None:
    async def too_long() -> None:
        async with store.atomic():
            for n in range(MAX_BATCH_MESSAGES + 1):
                await store.save_memory_state(f"k{n}", {})

    with pytest.raises(foldlog.AppendFailed, match="1000"):
        await too_long()
    assert await store.load_memory_state("k0") is None
    assert "1,000 saves on one shard" in LIMITS


# --- artifacts ----------------------------------------------------------------------------------


async def test_an_artifact_has_a_largest(reopen: OpenStore) -> None:
    retention = foldlog.ArtifactRetentionConfig(max_artifact_bytes=1000)
    store = await reopen(retention=retention)
    before = await appended(store)
    with pytest.raises(foldlog.ArtifactTooLarge) as refused:
        await store.artifact_store.put_bytes(b"x" * 1001)
    assert (refused.value.size, refused.value.limit) == (1001, 1000)
    assert await appended(store) == before
    await store.artifact_store.put_bytes(b"x" * 1000)
    assert foldlog.ArtifactRetentionConfig().max_artifact_bytes == 50_000_000
    assert "50 MB each" in LIMITS


async def test_artifacts_of_a_session_have_a_budget(reopen: OpenStore) -> None:
    retention = foldlog.ArtifactRetentionConfig(
        max_session_bytes=1000, max_trace_bytes=1000, cleanup_strategy="none"
    )
    store = await reopen(retention=retention)
    scope = foldlog.ArtifactScope(session_id="session")
    await store.artifact_store.put_bytes(b"x" * 900, scope=scope)
    with pytest.raises(foldlog.ArtifactLimitExceeded):
        await store.artifact_store.put_bytes(b"y" * 900, scope=scope)
