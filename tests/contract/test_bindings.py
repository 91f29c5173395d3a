"""Remote bindings: upsert on (trace, context, task), and the look-ups of a router."""

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
    assert await store.list_trace_bindings("trace") == [saved]
    assert await (await reopen()).list_trace_bindings("trace") == [saved]


async def test_unknown_traces_and_routers_have_no_bindings(store: foldlog.Store) -> None:
    assert await store.list_trace_bindings("nonexistent") == []
    assert await store.list_bindings(router_session_id="nonexistent") == []
    assert await store.find_binding(**QUERY) is None


async def test_saving_a_binding_twice_keeps_one(store: foldlog.Store) -> None:
    await store.save_remote_binding(binding())
    await store.save_remote_binding(binding())
    assert await store.list_trace_bindings("trace") == [binding()]


async def test_a_binding_is_replaced_by_its_key(store: foldlog.Store, reopen: OpenStore) -> None:
    for port in (1, 2, 1, 3, 1):
        await store.save_remote_binding(binding(agent_url=f"http://worker:{port}"))
    expected = [binding(agent_url="http://worker:1")]
    assert await store.list_trace_bindings("trace") == expected
    assert await (await reopen()).list_trace_bindings("trace") == expected


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
    found = await store.list_trace_bindings("trace")
    assert len(found) == len(saved)
    assert all(each in found for each in saved)
    assert await store.list_trace_bindings("other") == [binding("a", trace_id="other")]


async def test_a_router_lists_its_own_bindings(store: foldlog.Store) -> None:
    await store.save_remote_binding(binding("mine", **ROUTED))
    await store.save_remote_binding(binding("elsewhere", trace_id="other-trace", **ROUTED))
    await store.save_remote_binding(binding("theirs", router_session_id="other"))
    await store.save_remote_binding(binding("nobody's"))
    listed = by_task(list(await store.list_bindings(router_session_id="router")))
    assert listed == {
        "mine": binding("mine", **ROUTED),
        "elsewhere": binding("elsewhere", trace_id="other-trace", **ROUTED),
    }


async def test_a_binding_moves_with_its_router(store: foldlog.Store) -> None:
    await store.save_remote_binding(binding(**ROUTED))
    moved = binding(router_session_id="other", remote_skill="search")
    await store.save_remote_binding(moved)
    assert await store.list_bindings(router_session_id="router") == []
    assert await store.find_binding(**QUERY) is None
    assert await store.list_bindings(router_session_id="other") == [moved]
    assert await store.find_binding(**QUERY | {"router_session_id": "other"}) == moved


async def test_find_matches_router_agent_and_skill(store: foldlog.Store) -> None:
    saved = binding(**ROUTED)
    await store.save_remote_binding(saved)
    assert await store.find_binding(**QUERY) == saved
    for part in ("router_session_id", "agent_url", "remote_skill"):
        assert await store.find_binding(**QUERY | {part: "another"}) is None


async def test_find_prefers_the_binding_saved_last(store: foldlog.Store, reopen: OpenStore) -> None:
    for name in ("a", "b", "c", "b"):
        await store.save_remote_binding(binding(name, **ROUTED))
    for reader in (store, await reopen()):
        found = await reader.find_binding(**QUERY)
        assert found is not None
        assert found.task_id == "b"


async def test_find_never_crosses_tenants_or_users(store: foldlog.Store) -> None:
    await store.save_remote_binding(binding("owned", **ROUTED, tenant_id="acme", user_id="ada"))
    assert await store.find_binding(**QUERY) is None
    assert await store.find_binding(**QUERY, tenant_id="acme") is None
    assert await store.find_binding(**QUERY, tenant_id="acme", user_id="bob") is None
    assert await store.find_binding(**QUERY, tenant_id="other", user_id="ada") is None
    found = await store.find_binding(**QUERY, tenant_id="acme", user_id="ada")
    assert found is not None
    assert found.task_id == "owned"

    await store.save_remote_binding(binding("open", **ROUTED))
    assert await store.find_binding(**QUERY, tenant_id="other") is None
    unowned = await store.find_binding(**QUERY)
    assert unowned is not None
    assert unowned.task_id == "open"


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
        in_trace = by_task(list(await reader.list_trace_bindings("trace")))
        assert in_trace == listed


async def test_a_binding_saved_as_terminal_is_not_found(store: foldlog.Store) -> None:
    await store.save_remote_binding(binding(**ROUTED, is_terminal=True))
    assert await store.find_binding(**QUERY) is None


async def test_marking_an_unknown_binding_changes_nothing(store: foldlog.Store) -> None:
    await store.save_remote_binding(binding(**ROUTED))
    await store.mark_binding_terminal(trace_id="trace", context_id=None, task_id="task")
    await store.mark_binding_terminal(trace_id="other", context_id="ctx", task_id="task")
    assert await store.list_trace_bindings("trace") == [binding(**ROUTED)]
    assert await store.list_trace_bindings("other") == []
    assert await store.find_binding(**QUERY) == binding(**ROUTED)


async def test_bindings_belong_to_the_caller(store: foldlog.Store) -> None:
    metadata = {"tags": ["a"]}
    await store.save_remote_binding(binding(**ROUTED, metadata=metadata))
    metadata["tags"].append("b")
    for _ in range(2):
        [listed] = await store.list_trace_bindings("trace")
        assert listed.metadata == {"tags": ["a"]}
        listed.metadata["tags"].append("c")
        listed.agent_url = "http://elsewhere"
        found = await store.find_binding(**QUERY)
        assert found is not None
        assert found.metadata == {"tags": ["a"]}
        found.metadata["tags"].append("d")
