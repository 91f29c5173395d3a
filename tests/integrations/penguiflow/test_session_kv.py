"""The session KV facade, which later versions of PenguiFlow have."""

from __future__ import annotations

from typing import Any

import pytest
from penguiflow.artifacts import discover_artifact_store

from foldlog.integrations.penguiflow import PenguiFlowStateStore
from tests.integrations.penguiflow.conftest import OpenStore

session_kv = pytest.importorskip("penguiflow.sessions.session_kv")


def key_values(store: PenguiFlowStateStore, emitted: list[Any]) -> Any:
    artifacts = discover_artifact_store(store)
    assert artifacts is not None
    return session_kv.SessionKVFacade(
        state_store=store,
        artifacts=artifacts,
        tool_context={
            "tenant_id": "acme",
            "user_id": "ada",
            "session_id": "s1",
            "task_id": "t1",
            "trace_id": "trace",
        },
        emit_checkpoint_update=emitted.append,
    )


async def test_the_session_kv_facade_outlives_its_process(open_store: OpenStore) -> None:
    emitted: list[Any] = []
    kv = key_values(open_store(), emitted)
    await kv.set("state", {"step": 1, "token": "secret"})
    await kv.patch("state", {"step": 2})
    await kv.set("note", "for this task", scope="task")
    large = {"rows": ["row" * 100] * 100}
    await kv.set("large", large)  # beyond its inline limit, so it becomes an artifact

    again = key_values(open_store(), emitted)
    assert await again.get("state") == {"step": 2, "token": "<redacted>"}
    assert await again.get("note", scope="task") == "for this task"
    assert await again.get("large") == large
    assert await again.delete("state") is True
    assert await kv.get("state") is None
    assert [content["kind"] for content in emitted[:2]] == ["kv_set", "kv_patch"]
