"""Artifacts beyond `test_kit`: exact metadata, options, and errors that say why."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

import foldlog
from foldlog import ArtifactRef, ArtifactRetentionConfig, ArtifactScope
from foldlog.testing.values import HOSTILE_NAMES
from tests.conftest import OpenStore
from tests.support.pushed import all_is_pushed

SESSION = ArtifactScope(session_id="session")


def in_trace(trace_id: str, session_id: str = "session") -> ArtifactScope:
    return ArtifactScope(session_id=session_id, trace_id=trace_id)


async def kept(store: foldlog.Store, refs: list[ArtifactRef]) -> list[bool]:
    return [await store.artifact_store.exists(ref.id) for ref in refs]


async def test_bytes_come_back_as_they_were(store: foldlog.Store, reopen: OpenStore) -> None:
    scope = ArtifactScope(tenant_id="acme", user_id="ada", session_id="s", trace_id="t")
    meta = {"tool": "chart", "warnings": ["none"], "raw": b"\x00", "pair": (1, 2)}
    ref = await store.artifact_store.put_bytes(
        b"\x00\xffpdf",
        mime_type="application/pdf",
        filename="report.pdf",
        namespace="tool",
        scope=scope,
        meta=meta,
    )
    assert ref.id
    assert ref.mime_type == "application/pdf"
    assert ref.size_bytes == 5
    assert ref.filename == "report.pdf"
    assert ref.sha256 == hashlib.sha256(b"\x00\xffpdf").hexdigest()
    assert ref.scope == scope
    assert ref.source == meta
    for reader in (store, await reopen()):
        assert await reader.artifact_store.get(ref.id) == b"\x00\xffpdf"
        assert await reader.artifact_store.get_ref(ref.id) == ref
        assert await reader.artifact_store.exists(ref.id)


async def test_text_that_utf8_cannot_hold_is_refused(store: foldlog.Store) -> None:
    with pytest.raises(foldlog.FoldlogError):
        await store.artifact_store.put_text("a\ud800b", scope=SESSION)
    assert await store.artifact_store.list() == []


async def test_an_unknown_artifact_is_none(store: foldlog.Store) -> None:
    artifacts = store.artifact_store
    ref = await artifacts.put_bytes(b"x", scope=SESSION)
    for unknown in ("nonexistent", "../../etc/passwd", "*", ">", "a b\r\n", "\0"):
        assert await artifacts.get(unknown) is None
        assert await artifacts.get_ref(unknown) is None
        assert await artifacts.get_with_session_check(unknown, "session") is None
        assert await artifacts.exists(unknown) is False
        assert await artifacts.delete(unknown) is False
    assert await artifacts.exists(ref.id)


async def test_names_are_metadata_and_never_paths(store: foldlog.Store, reopen: OpenStore) -> None:
    refs = {}
    for hostile in HOSTILE_NAMES:
        refs[hostile] = await store.artifact_store.put_bytes(
            b"x",
            filename=hostile,
            namespace=hostile,
            mime_type=hostile,
            scope=ArtifactScope(tenant_id=hostile, session_id=hostile, trace_id=hostile),
            meta={"n": hostile},
        )
    for reader in (store, await reopen()):
        for hostile, ref in refs.items():
            found = await reader.artifact_store.get_ref(ref.id)
            assert found == ref
            assert found is not None
            assert (found.filename, found.mime_type) == (hostile, hostile)
            assert found.source == {"n": hostile}
            assert await reader.artifact_store.get_with_session_check(ref.id, hostile) == b"x"
            assert await reader.artifact_store.list(scope=found.scope) == [ref]


async def test_metadata_that_cannot_be_held_is_refused(store: foldlog.Store) -> None:
    with pytest.raises(foldlog.PayloadError) as refused:
        await store.artifact_store.put_bytes(b"x", scope=SESSION, meta={"bad": [1, object()]})
    assert "bad" in refused.value.path
    assert await store.artifact_store.list() == []


# --- retention ----------------------------------------------------------------------------------


async def test_an_artifact_expires(
    reopen: OpenStore, advance_clock: Callable[[float], None]
) -> None:
    store = await reopen(retention=ArtifactRetentionConfig(ttl_seconds=100))
    old = await store.artifact_store.put_bytes(b"old", scope=SESSION)
    advance_clock(60)
    young = await store.artifact_store.put_bytes(b"young", scope=SESSION)
    assert await kept(store, [old, young]) == [True, True]
    advance_clock(60)
    assert await kept(store, [old, young]) == [False, True]
    assert await store.artifact_store.get(old.id) is None
    assert await store.artifact_store.get_ref(old.id) is None
    assert await store.artifact_store.get_with_session_check(old.id, "session") is None
    assert await store.artifact_store.list(scope=SESSION) == [young]
    assert await store.artifact_store.delete(old.id) is False

    again = await store.artifact_store.put_bytes(b"old", scope=SESSION)
    assert await store.artifact_store.get(again.id) == b"old"


async def test_an_artifact_over_the_limit_is_refused(reopen: OpenStore) -> None:
    store = await reopen(retention=ArtifactRetentionConfig(max_artifact_bytes=10))
    await store.artifact_store.put_bytes(b"x" * 10, scope=SESSION)
    with pytest.raises(foldlog.ArtifactTooLarge) as refused:
        await store.artifact_store.put_bytes(b"x" * 11, scope=SESSION)
    assert (refused.value.size, refused.value.limit) == (11, 10)
    assert len(await store.artifact_store.list()) == 1


LIMITS: list[dict[str, Any]] = [
    {"max_artifacts_per_session": 3},
    {"max_artifacts_per_trace": 3},
    {"max_session_bytes": 30},
    {"max_trace_bytes": 30},
]
BY_LIMIT = pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: next(iter(limit)))


async def fill_and_read_first(store: foldlog.Store, scope: ArtifactScope) -> list[ArtifactRef]:
    """Three artifacts of ten bytes, which is as much as LIMITS allow; the oldest is read last."""
    refs = [await store.artifact_store.put_bytes(n * 10, scope=scope) for n in (b"a", b"b", b"c")]
    assert await store.artifact_store.get(refs[0].id) == b"a" * 10
    return refs


@BY_LIMIT
async def test_none_evicts_nothing_and_refuses(reopen: OpenStore, limit: dict[str, Any]) -> None:
    store = await reopen(retention=ArtifactRetentionConfig(**limit, cleanup_strategy="none"))
    refs = await fill_and_read_first(store, in_trace("trace"))
    with pytest.raises(foldlog.ArtifactLimitExceeded) as refused:
        await store.artifact_store.put_bytes(b"d" * 10, scope=in_trace("trace"))
    [(name, allowed)] = limit.items()
    assert (refused.value.limit, refused.value.allowed) == (name, allowed)
    assert await kept(store, refs) == [True, True, True]
    assert len(await store.artifact_store.list()) == 3

    assert await store.artifact_store.delete(refs[0].id)
    assert await store.artifact_store.put_bytes(b"d" * 10, scope=in_trace("trace"))


@pytest.mark.parametrize("limit", ["max_session_bytes", "max_trace_bytes"])
async def test_what_can_never_fit_is_refused_by_name(reopen: OpenStore, limit: str) -> None:
    retention = ArtifactRetentionConfig(**{limit: 30}, cleanup_strategy="lru")
    store = await reopen(retention=retention)
    refs = await fill_and_read_first(store, in_trace("trace"))
    with pytest.raises(foldlog.ArtifactLimitExceeded):
        await store.artifact_store.put_bytes(b"x" * 31, scope=in_trace("trace"))
    assert await kept(store, refs) == [True, True, True]


async def test_limits_hold_for_a_store_opened_later(reopen: OpenStore) -> None:
    retention = ArtifactRetentionConfig(max_artifacts_per_session=3, cleanup_strategy="fifo")
    first = await reopen(retention=retention)
    refs = [await first.artifact_store.put_bytes(n, scope=SESSION) for n in (b"a", b"b", b"c")]
    second = await reopen(retention=retention)
    refs.append(await second.artifact_store.put_bytes(b"d", scope=SESSION))
    assert await kept(second, refs) == [False, True, True, True]
    await all_is_pushed(first)
    assert await kept(first, refs) == [False, True, True, True]
