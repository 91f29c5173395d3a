"""Artifacts through PenguiFlow's own ways to them."""

from __future__ import annotations

from typing import Any

import pytest
from penguiflow.artifacts import (
    ArtifactRef,
    ArtifactRetentionConfig,
    ArtifactScope,
    ArtifactStore,
    discover_artifact_store,
)

from foldlog.integrations.penguiflow import PenguiFlowStateStore
from tests.integrations.penguiflow.conftest import OpenStore


def artifacts_of(store: PenguiFlowStateStore) -> Any:
    found = discover_artifact_store(store)
    assert isinstance(found, ArtifactStore)
    return found


async def test_they_are_discovered_and_outlive_the_store(open_store: OpenStore) -> None:
    scope = ArtifactScope(tenant_id="acme", session_id="s1", trace_id="t1")
    ref = await artifacts_of(open_store()).put_bytes(
        b"\x00\xff" * 100_000,
        mime_type="image/png",
        filename="chart.png",
        namespace="charts",
        scope=scope,
        meta={"tool": {"name": "draw"}},
    )
    assert type(ref) is ArtifactRef
    assert ref.id.startswith("charts_")
    assert (ref.size_bytes, ref.scope, ref.source) == (200_000, scope, {"tool": {"name": "draw"}})

    artifacts = artifacts_of(open_store())
    assert await artifacts.get(ref.id) == b"\x00\xff" * 100_000
    assert await artifacts.get_ref(ref.id) == ref
    assert await artifacts.get_with_session_check(ref.id, "s1") == b"\x00\xff" * 100_000
    assert await artifacts.get_with_session_check(ref.id, "s2") is None
    assert await artifacts.list(scope=ArtifactScope(session_id="s1")) == [ref]
    assert await artifacts.list(scope=ArtifactScope(session_id="s1", tenant_id="other")) == []
    assert await artifacts.delete(ref.id) is True
    assert await artifacts.exists(ref.id) is False
    assert await artifacts.delete(ref.id) is False


async def test_without_a_scope_they_belong_to_the_default_session(
    store: PenguiFlowStateStore,
) -> None:
    artifacts = artifacts_of(store)
    ref = await artifacts.put_text("hello")
    assert ref.scope == ArtifactScope(session_id="default")
    assert await artifacts.get_with_session_check(ref.id, "default") == b"hello"
    artifacts.clear_session("default")
    assert await artifacts.get(ref.id) is None


async def test_penguiflows_retention_holds(open_store: OpenStore) -> None:
    retention = ArtifactRetentionConfig(max_artifact_bytes=10, max_artifacts_per_session=2)
    artifacts = artifacts_of(open_store(retention=retention))
    with pytest.raises(ValueError, match="11 bytes"):
        await artifacts.put_text("x" * 11)
    refs = [await artifacts.put_text(f"text {n}") for n in range(3)]
    assert [await artifacts.exists(ref.id) for ref in refs] == [False, True, True]
    artifacts.clear()
    assert await artifacts.list() == []
