"""What FoldlogThreadSnapshotStore does beyond the package's own tests: see `upstream.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("agent_framework_ag_ui") is None:
    pytest.skip("agent-framework-ag-ui is not installed", allow_module_level=True)

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    ResponseStream,
)
from agent_framework_ag_ui import (
    AgentFrameworkAgent,
    AGUIThreadSnapshot,
    AGUIThreadSnapshotStore,
)
from agent_framework_ag_ui._snapshots import _SNAPSHOT_SCOPE_INPUT_KEY

import foldlog
import foldlog.blocking
from foldlog.errors import InvalidId
from foldlog.integrations.agent_framework import FoldlogHistoryProvider
from foldlog.integrations.agent_framework.snapshots import FoldlogThreadSnapshotStore
from foldlog.integrations.objects import Unreadable

SAID = AGUIThreadSnapshot([{"id": "1", "role": "user", "content": "Oslo"}], {"n": 1})


class Polite(BaseChatClient[Any]):
    """Answers "By all means"."""

    def _inner_get_response(self, **_: Any) -> Any:
        async def said() -> AsyncIterator[ChatResponseUpdate]:
            yield ChatResponseUpdate(contents=[Content.from_text("By all means")], role="assistant")

        return ResponseStream(said(), finalizer=ChatResponse.from_updates)


async def test_any_process_has_the_latest(
    store: foldlog.Store, embedded_path: Path, namespace: str
) -> None:
    snapshots = FoldlogThreadSnapshotStore(store)
    assert isinstance(snapshots, AGUIThreadSnapshotStore)
    with foldlog.blocking.connect(path=embedded_path, namespace=namespace) as other:
        there = FoldlogThreadSnapshotStore(other)
        for n in range(10):
            await snapshots.save(
                scope="a", thread_id="t", snapshot=AGUIThreadSnapshot(state={"n": n})
            )
            found = await there.get(scope="a", thread_id="t")
            assert found == AGUIThreadSnapshot(state={"n": n})


@pytest.mark.parametrize("scope", ["a", "a:b", "_", "%3A"])
async def test_scopes_share_nothing(store: foldlog.Store, scope: str) -> None:
    snapshots = FoldlogThreadSnapshotStore(store)
    await snapshots.save(scope=scope, thread_id="t", snapshot=SAID)
    await snapshots.save(scope=f"{scope}:", thread_id="t", snapshot=SAID)
    await store.save_memory_state("acme:ann:trip", {"n": 1})
    await snapshots.clear(scope=scope)
    assert await snapshots.get(scope=scope, thread_id="t") is None
    assert await snapshots.delete(scope=scope, thread_id="t") is False
    assert await snapshots.get(scope=f"{scope}:", thread_id="t") == SAID
    await snapshots.clear()
    assert await snapshots.get(scope=f"{scope}:", thread_id="t") is None
    assert await store.load_memory_state("acme:ann:trip") == {"n": 1}
    with pytest.raises(InvalidId):
        await snapshots.clear(scope="")


async def test_an_agent_replays_a_thread_that_its_session_takes_along(
    store: foldlog.Store,
) -> None:
    async def ask(*messages: dict[str, str]) -> str:  # each as after a restart
        agent = Agent(Polite(), context_providers=[FoldlogHistoryProvider(store)])
        snapshots = FoldlogThreadSnapshotStore(store)
        runner = AgentFrameworkAgent(agent, snapshot_store=snapshots)
        # The endpoint sets the scope, and its library leaves a task behind.
        body = {"threadId": "t", "runId": "r", "messages": list(messages)}
        events = runner.run({**body, _SNAPSHOT_SCOPE_INPUT_KEY: "ann"})
        return "".join([event.model_dump_json() async for event in events])

    await ask({"id": "1", "role": "user", "content": "to Oslo"})
    assert "By all means" in await ask()
    [session] = await store.sessions()
    assert [each.role for each in await store.list_messages(session)] == ["user", "assistant"]
    await store.erase_session(session)
    assert "By all means" not in await ask()


async def test_what_redaction_has_changed_is_unreadable(
    embedded_path: Path, namespace: str
) -> None:
    def redact(saving: foldlog.Saving) -> dict[str, object]:
        return {name: {"gone": True} for name in saving.values}

    async with foldlog.connect(path=embedded_path, namespace=namespace, redact=redact) as store:
        snapshots = FoldlogThreadSnapshotStore(store)
        await snapshots.save(scope="a", thread_id="t", snapshot=SAID)
        with pytest.raises(Unreadable, match="thread 't'"):
            await snapshots.get(scope="a", thread_id="t")
