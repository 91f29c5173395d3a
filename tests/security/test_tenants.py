"""Two accounts of one server: neither can read, watch, purge or guess what is the other's."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import nats
import nats.errors
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

import foldlog
from foldlog import ArtifactScope
from foldlog.telemetry.stores import jetstream
from foldlog.testing.values import HOSTILE_IDS
from tests.security.conftest import Tenant
from tests.support.build import binding, event, planner_event, steering, task, trajectory, update
from tests.support.stores import fresh_namespace

IDS = [*HOSTILE_IDS, "session", "trace", "acme", "globex"]
SURROGATE = "a\ud800b"


@pytest.fixture
async def stores(
    tenants: tuple[Tenant, Tenant],
) -> AsyncIterator[tuple[foldlog.Store, foldlog.Store]]:
    """A store of each tenant, in a namespace of the same name, empty."""
    acme, globex = tenants
    name = fresh_namespace()
    async with acme.connect(namespace=name) as mine, globex.connect(namespace=name) as theirs:
        yield mine, theirs


async def fill(store: foldlog.Store, id: str) -> None:
    """Save something of every kind under one id."""
    await asyncio.gather(
        store.save_event(event(id)),
        store.save_planner_event(id, planner_event()),
        store.save_remote_binding(binding(trace_id=id, router_session_id=id, remote_skill="s")),
        store.save_planner_state(id, {"n": 1}),
        store.save_memory_state(id, {"n": 1}),
        store.save_task(task("task", id)),
        store.save_update(update("u", id)),
        store.save_steering(steering("e", id)),
        store.save_trajectory(id, id, trajectory()),
        store.artifact_store.put_bytes(b"secret", scope=ArtifactScope(session_id=id)),
    )


READS: dict[str, Callable[[foldlog.Store, str], Awaitable[Any]]] = {
    "load_history": lambda s, x: s.load_history(x),
    "list_planner_events": lambda s, x: s.list_planner_events(x),
    "list_trace_bindings": lambda s, x: s.list_bindings(trace_id=x),
    "list_bindings": lambda s, x: s.list_bindings(router_session_id=x),
    "load_memory_state": lambda s, x: s.load_memory_state(x),
    "list_tasks": lambda s, x: s.list_tasks(x),
    "list_updates": lambda s, x: s.list_updates(x),
    "list_steering": lambda s, x: s.list_steering(x),
    "list_traces": lambda s, x: s.list_traces(x),
    "get_trajectory": lambda s, x: s.get_trajectory(x, x),
    "artifacts": lambda s, x: s.artifact_store.list(scope=ArtifactScope(session_id=x)),
    "load_planner_state": lambda s, x: s.load_planner_state(x),
}


async def found(store: foldlog.Store, id: str) -> dict[str, Any]:
    """What every kind of read finds under an id."""
    results = await asyncio.gather(*(read(store, id) for read in READS.values()))
    return {name: result for name, result in zip(READS, results, strict=True) if result}


async def raw(tenant: Tenant) -> Client:
    """A client that asks whatever it likes."""

    async def ignore(error: Exception) -> None:
        return None

    return await nats.connect(tenant.url, error_cb=ignore, **tenant.options)


async def test_nothing_of_the_other_is_read_whatever_the_id(
    stores: tuple[foldlog.Store, foldlog.Store],
) -> None:
    mine, theirs = stores
    for id in IDS:
        await fill(mine, id)
    assert sorted(await mine.sessions()) == sorted(IDS)
    assert await theirs.sessions() == []
    for id in IDS:
        assert await found(theirs, id) == {}
    assert await theirs.artifact_store.list() == []
    for ref in await mine.artifact_store.list():
        assert await theirs.artifact_store.get(ref.id) is None
    for id in IDS:
        assert len(await found(mine, id)) == len(READS)


async def test_nothing_of_the_other_is_cleared_or_erased(
    stores: tuple[foldlog.Store, foldlog.Store],
) -> None:
    mine, theirs = stores
    for id in IDS[:12]:
        await fill(mine, id)
    for id in IDS[:16]:
        await theirs.clear_session(id)
        assert (await theirs.erase_session(id)).removed == {}
    await theirs.clear(theirs.log.namespace.name)
    for id in IDS[:12]:
        assert len(await found(mine, id)) == len(READS)


async def test_nothing_of_the_other_is_watched(
    stores: tuple[foldlog.Store, foldlog.Store],
) -> None:
    mine, theirs = stores
    for id in ("session", "*", ">", "a.b"):
        async with aclosing(theirs.watch_updates(id)) as watched:
            first = asyncio.ensure_future(anext(watched))
            await mine.save_update(update("mine", id))
            await theirs.save_update(update("theirs", id))
            assert (await first).update_id == "theirs"


@pytest.mark.parametrize("read", [*READS, "clear_session", "save_update"])
async def test_a_surrogate_is_refused_before_anything_is_asked(
    stores: tuple[foldlog.Store, foldlog.Store], read: str
) -> None:
    _, theirs = stores
    calls = READS | {
        "clear_session": lambda s, x: s.clear_session(x),
        "save_update": lambda s, x: s.save_update(update("u").model_copy(update={"session_id": x})),
    }
    with pytest.raises(foldlog.InvalidId, match="surrogate"):
        await calls[read](theirs, SURROGATE)


async def test_subjects_of_the_other_cannot_be_guessed(
    tenants: tuple[Tenant, Tenant], stores: tuple[foldlog.Store, foldlog.Store]
) -> None:
    """By any request: what an account's own streams do not hold is not there."""
    mine, _ = stores
    session = f"known-to-acme-{secrets.token_hex(8)}"
    await fill(mine, session)
    names = [s.name for s in await mine.log.subjects() if session in s.name]
    assert len(names) > 10
    heard: list[Msg] = []

    async def hear(msg: Msg) -> None:
        heard.append(msg)

    async with await raw(tenants[1]) as client:
        for name in ("live.foldlog.>", *(f"live.{name}" for name in names)):
            await client.subscribe(name, cb=hear)
        await client.flush()
        log, blobs = mine.log.namespace.stream(0), mine.log.namespace.stream("blobs")
        for stream in (log, blobs):
            for name in names:
                ask = json.dumps({"last_by_subj": name}).encode()
                try:
                    reply = await client.request(f"$JS.API.DIRECT.GET.{stream}", ask)
                    assert (reply.headers or {})["Status"] == "404"
                except nats.errors.NoRespondersError:
                    assert stream == blobs  # it has no such stream at all
                reply = await client.request(f"$JS.API.STREAM.MSG.GET.{stream}", ask)
                assert "error" in json.loads(reply.data)
            purge = json.dumps({"filter": names[0]}).encode()
            reply = await client.request(f"$JS.API.STREAM.PURGE.{stream}", purge)
            assert json.loads(reply.data).get("purged", 0) == 0
        await mine.save_update(update("pushed", session))
        await client.flush()
    assert heard == []
    assert [u.update_id for u in await mine.list_updates(session)] == ["u", "pushed"]


async def test_the_configuration_allows_all_that_a_store_asks(
    tenants: tuple[Tenant, Tenant],
) -> None:
    """A request that it does not list would be answered by nobody, and some are done without."""
    name = fresh_namespace()
    async with tenants[0].connect(namespace=name, shards=2) as store:
        await fill(store, "session")
        await store.save_events([event("long", float(n)) for n in range(1_500)])
        assert len(await store.load_history("long")) == 1_500  # long enough for a snapshot
        async with store.run("run", session_id="session") as run:
            await run.step("large", lambda: b"x" * 300_000)
        before = await store.position()
        assert (await store.at(before).list_tasks("session"))[0].task_id == "task"
        await store.clear_session(await store.fork("session"))
        report = await store.verify()
        assert report.findings == ()
        assert (await store.rebuild()).differing == ()
        assert (await store.health()).streams[1].replicas == 1
        assert (await store.erase_session("session")).readable == ()
        log = jetstream(store)
        assert log is not None
    # Closing has written what still waited: snapshots and marks.
    assert log.connection._last_error is None


@pytest.mark.parametrize(
    "subject",
    [
        "$JS.API.STREAM.DELETE.FOLDLOG_default_0",
        "$JS.API.STREAM.UPDATE.FOLDLOG_default_0",
        "$JS.API.STREAM.RESTORE.FOLDLOG_default_0",
        "$JS.API.STREAM.SNAPSHOT.FOLDLOG_default_0",
        "$SYS.REQ.SERVER.PING",
        "other.application",
    ],
)
async def test_a_tenant_may_do_only_what_the_configuration_lists(
    tenants: tuple[Tenant, Tenant],
    stores: tuple[foldlog.Store, foldlog.Store],
    subject: str,
) -> None:
    refused: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()

    async def note(error: Exception) -> None:
        if not refused.done():
            refused.set_result(error)

    client = await nats.connect(tenants[0].url, error_cb=note, **tenants[0].options)
    async with client:
        await client.publish(subject, b"{}")
        async with asyncio.timeout(30):
            assert "permissions violation" in str(await refused).lower()
    assert await stores[0].sessions() == []


async def test_one_tenants_password_does_not_open_the_others_account(
    tenants: tuple[Tenant, Tenant],
) -> None:
    acme, globex = tenants
    with pytest.raises(foldlog.ConfigurationError, match="user 'globex'") as refused:
        await acme.connect(user="globex")
    assert acme.password not in str(refused.value)
    assert globex.password not in str(refused.value)


async def test_namespaces_of_one_account_keep_apart_whatever_their_name(
    tenants: tuple[Tenant, Tenant],
) -> None:
    names = ["a", "a.b", "a=2Eb", "*", ">", "a b", "a\r\nb", "../a", "\0", "x" * 5_000]
    opened = [await tenants[1].connect(namespace=name) for name in names]
    try:
        for name, store in zip(names, opened, strict=True):
            await store.save_memory_state("key", {"of": name})
        for name, store in zip(names, opened, strict=True):
            assert await store.load_memory_state("key") == {"of": name}
        await opened[3].clear(opened[3].log.namespace.name)
        assert await opened[0].load_memory_state("key") == {"of": "a"}
    finally:
        for store in opened:
            await store.close()
