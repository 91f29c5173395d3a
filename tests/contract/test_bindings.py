"""Remote bindings beyond `test_kit`: those of a trace."""

from __future__ import annotations

from typing import Any

import foldlog
from tests.conftest import OpenStore
from tests.support.build import binding

ROUTED: dict[str, Any] = {"router_session_id": "router", "remote_skill": "search"}
QUERY: dict[str, Any] = ROUTED | {"agent_url": "http://worker:8080"}


def by_task(bindings: list[foldlog.RemoteBinding]) -> dict[str, foldlog.RemoteBinding]:
    assert len({b.task_id for b in bindings}) == len(bindings)
    return {b.task_id: b for b in bindings}


async def test_a_binding_comes_back_as_it_was(store: foldlog.Store, reopen: OpenStore) -> None:
    saved = binding(
        **ROUTED,
        tenant_id="acme",
        user_id="ada",
        last_remote_task_id="remote-7",
        metadata={"raw": b"\x00\xff", "nested": [{"n": 10**30}]},
    )
    await store.save_remote_binding(saved)
    assert await store.list_bindings(trace_id="trace") == [saved]
    assert await (await reopen()).list_bindings(trace_id="trace") == [saved]


async def test_unknown_traces_and_routers_have_no_bindings(store: foldlog.Store) -> None:
    assert await store.list_bindings(trace_id="nonexistent") == []
    assert await store.list_bindings(router_session_id="nonexistent") == []
    assert await store.find_binding(**QUERY) is None


async def test_a_binding_is_replaced_by_its_key(store: foldlog.Store, reopen: OpenStore) -> None:
    for port in (1, 2, 1, 3, 1):
        await store.save_remote_binding(binding(agent_url=f"http://worker:{port}"))
    expected = [binding(agent_url="http://worker:1")]
    assert await store.list_bindings(trace_id="trace") == expected
    assert await (await reopen()).list_bindings(trace_id="trace") == expected


async def test_each_part_of_the_key_tells_bindings_apart(store: foldlog.Store) -> None:
    saved = [
        binding("a"),
        binding("b"),
        binding("a", context_id=None),
        binding("a", context_id="None"),
        binding("a", context_id="null"),
    ]
    for each in (*saved, binding("a", trace_id="other")):
        await store.save_remote_binding(each)
    found = await store.list_bindings(trace_id="trace")
    assert len(found) == len(saved)
    assert all(each in found for each in saved)
    assert await store.list_bindings(trace_id="other") == [binding("a", trace_id="other")]


async def test_a_terminal_binding_is_listed_but_not_found(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    await store.save_remote_binding(binding("a", **ROUTED))
    await store.save_remote_binding(binding("b", **ROUTED))
    await store.mark_binding_terminal(trace_id="trace", context_id="ctx", task_id="b")
    for reader in (store, await reopen()):
        found = await reader.find_binding(**QUERY)
        assert found is not None
        assert found.task_id == "a"
        listed = by_task(list(await reader.list_bindings(router_session_id="router")))
        assert {name: b.is_terminal for name, b in listed.items()} == {"a": False, "b": True}
        in_trace = by_task(list(await reader.list_bindings(trace_id="trace")))
        assert in_trace == listed


async def test_bindings_belong_to_the_caller(store: foldlog.Store) -> None:
    metadata = {"tags": ["a"]}
    await store.save_remote_binding(binding(**ROUTED, metadata=metadata))
    metadata["tags"].append("b")
    for _ in range(2):
        [listed] = await store.list_bindings(trace_id="trace")
        assert listed.metadata == {"tags": ["a"]}
        listed.metadata["tags"].append("c")
        listed.agent_url = "http://elsewhere"
        found = await store.find_binding(**QUERY)
        assert found is not None
        assert found.metadata == {"tags": ["a"]}
        found.metadata["tags"].append("d")
