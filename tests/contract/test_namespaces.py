"""Namespaces: tenants of one log that never see each other."""

from __future__ import annotations

import pytest

import foldlog
from foldlog import ArtifactScope
from tests.conftest import CONTAINER, OpenStore
from tests.support.build import event, steering, task, update
from tests.support.stores import fresh_namespace

# An in-memory log is one namespace by itself; a server holds many.
pytestmark = pytest.mark.parametrize("backend", ["embedded", CONTAINER], indirect=True)


@pytest.fixture
async def tenants(reopen: OpenStore) -> list[foldlog.Store]:
    """Two stores in namespaces whose names invite confusion."""
    name = fresh_namespace()
    return [await reopen(namespace=each) for each in (f"{name}.a *>", f"{name}=2Ea *>")]


async def test_tenants_do_not_see_each_other(tenants: list[foldlog.Store]) -> None:
    mine, theirs = tenants
    await mine.save_event(event())
    await mine.save_task(task())
    await mine.save_update(update("u"))
    await mine.save_steering(steering("e"))
    await mine.save_memory_state("key", {})
    await mine.save_planner_state("token", {})
    ref = await mine.artifact_store.put_bytes(b"x", scope=ArtifactScope(session_id="session"))

    assert await theirs.load_history("trace", consistency="strong") == []
    assert await theirs.list_tasks("session") == []
    assert await theirs.list_updates("session", consistency="strong") == []
    assert await theirs.list_steering("session") == []
    assert await theirs.load_memory_state("key", consistency="strong") is None
    assert await theirs.load_planner_state("token") is None
    assert await theirs.artifact_store.get(ref.id) is None
    assert await theirs.artifact_store.list() == []
    assert await theirs.sessions() == []
    assert await mine.load_planner_state("token") == {}


async def test_a_tenant_clears_only_its_own(tenants: list[foldlog.Store]) -> None:
    mine, theirs = tenants
    for store in (mine, theirs):
        await store.save_task(task())
        await store.artifact_store.put_bytes(b"x", scope=ArtifactScope(session_id="session"))
    await theirs.clear(theirs.log.namespace.name)
    assert await theirs.sessions() == []
    assert await mine.list_tasks("session") == [task()]
    assert len(await mine.artifact_store.list()) == 1


async def test_health_names_the_namespace(tenants: list[foldlog.Store]) -> None:
    mine, theirs = tenants
    healths = [await mine.health(), await theirs.health()]
    assert healths[0].namespace.endswith(".a *>")
    assert healths[1].namespace.endswith("=2Ea *>")
    streams = [{stream.name for stream in health.streams} for health in healths]
    assert streams[0]
    assert streams[0].isdisjoint(streams[1])
