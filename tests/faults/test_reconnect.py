"""A connection that breaks in every way there is, between a store and a real server."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, cast

import pytest

import foldlog
from foldlog import AppendUnknown, LogUnavailable
from foldlog.envelope import draft
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.port import Append
from foldlog.subjects import Namespace
from tests.faults.proxy import Proxy
from tests.faults.storms.patience import PATIENCE, answered
from tests.support.build import update
from tests.support.server import LocalServer


@pytest.fixture
async def store(proxy: Proxy) -> AsyncIterator[foldlog.Store]:
    async with foldlog.connect(proxy.url) as store:
        await store.save_update(update("before"))
        yield store


async def ids(store: foldlog.Store) -> list[str]:
    listed = await answered(lambda: store.list_updates("session", consistency="strong"))
    return [item.update_id for item in listed]


def once(proxy: Proxy, reply: Callable[[bytes], bool], change: Callable[[bytes], Any]) -> None:
    """Change the first of what the server says that is meant, and let the rest pass."""
    done = False

    def look(data: bytes) -> bytes | None:
        nonlocal done
        if done or not reply(data):
            return data
        done = True
        return cast("bytes | None", change(data))

    proxy.to_client = look


def is_ack(data: bytes) -> bool:
    return b'"stream":' in data and b'"seq":' in data


async def test_a_cut_between_a_publish_and_its_ack_is_settled(
    proxy: Proxy, store: foldlog.Store
) -> None:
    once(proxy, is_ack, lambda data: None)
    await store.save_update(update("1"))
    assert proxy.connections == 2
    assert await ids(store) == ["before", "1"]


async def test_a_reset_in_the_middle_of_a_frame_is_settled(
    proxy: Proxy, store: foldlog.Store
) -> None:
    cutting = False

    def look(data: bytes) -> bytes | None:
        nonlocal cutting
        if cutting:
            cutting = False
            return None
        if is_ack(data):
            cutting = True
            proxy.to_client = lambda data: None if cutting else data
            return data[: len(data) // 2]
        return data

    proxy.to_client = look
    saving = asyncio.create_task(store.save_update(update("1")))
    async with asyncio.timeout(PATIENCE):
        while not cutting:
            await asyncio.wait([saving], timeout=0.01)
    proxy.heal()
    proxy.cut()
    await saving
    assert await ids(store) == ["before", "1"]


async def test_a_compare_and_set_whose_ack_is_lost_is_no_conflict(proxy: Proxy) -> None:
    """A server without replicas answers the second attempt with a mismatch: with the first."""
    log = await JetStreamLog.open(proxy.url, "swaps")
    subject = Namespace("swaps").subject("updates", "s")
    try:
        once(proxy, is_ack, lambda data: None)
        seqs = await log.append([Append(subject, (draft("x", b"\xc0", id="1"),), 0)], atomic=True)
        assert seqs == [1]
        with pytest.raises(foldlog.AppendConflict) as conflict:
            await log.append([Append(subject, (draft("x", b"\xc0", id="2"),), 0)], atomic=True)
        assert (conflict.value.expected, conflict.value.actual) == (0, 1)
    finally:
        await log.close()


async def test_a_resume_whose_ack_is_lost_has_a_winner(proxy: Proxy, store: foldlog.Store) -> None:
    await store.save_planner_state("token", {"step": 1})
    once(proxy, is_ack, lambda data: None)
    assert await store.load_planner_state("token") == {"step": 1}
    assert await store.load_planner_state("token") is None


async def test_a_block_whose_ack_is_lost_is_whole(proxy: Proxy, store: foldlog.Store) -> None:
    once(proxy, is_ack, lambda data: None)
    async with store.atomic():
        await store.save_update(update("1"))
        await store.save_update(update("2", "other"))
    assert await ids(store) == ["before", "1"]
    assert len(await store.list_updates("other", consistency="strong")) == 1


async def test_an_error_of_the_server_ends_a_connection_and_not_the_store(
    proxy: Proxy, store: foldlog.Store
) -> None:
    once(proxy, is_ack, lambda data: data + b"-ERR 'User Authentication Expired'\r\n")
    await store.save_update(update("1"))
    await store.save_update(update("2"))
    assert await ids(store) == ["before", "1", "2"]
    assert proxy.connections == 2


async def test_what_was_told_not_committed_never_comes(proxy: Proxy) -> None:
    async with foldlog.connect(proxy.url, timeout=0.5) as store:
        await store.save_update(update("before"))
        proxy.refuses = True
        proxy.cut()
        ended = await asyncio.gather(
            *(store.save_update(update(f"{n}")) for n in range(20)), return_exceptions=True
        )
        told = {f"{n}" for n, end in enumerate(ended) if type(end) is LogUnavailable}
        doubtful = {f"{n}" for n, end in enumerate(ended) if isinstance(end, AppendUnknown)}
        assert len(told) + len(doubtful) == 20
        assert told
        proxy.heal()
        await answered(lambda: store.save_update(update("after")))
        found = await ids(store)
    assert found[0] == "before"
    assert found[-1] == "after"
    assert not told & set(found)


async def test_a_watcher_goes_on_over_cuts_without_gap_or_repeat(
    proxy: Proxy, server: LocalServer, store: foldlog.Store
) -> None:
    async with (
        foldlog.connect(server.url) as writer,
        aclosing(cast(Any, store.watch_updates("session"))) as watched,
    ):
        got = [(await anext(watched)).update_id]
        for number in range(40):
            await writer.save_update(update(f"{number}"))
            if number % 4 == 1:
                proxy.cut()
            if number % 3:  # else it has some to catch up with
                got.append((await anext(watched)).update_id)
        while len(got) < 41:
            got.append((await anext(watched)).update_id)
    assert got == ["before", *(f"{number}" for number in range(40))]


async def test_a_server_that_comes_back_is_found(server: LocalServer) -> None:
    async with foldlog.connect(server.url) as store:
        await store.save_update(update("before"))
        for number in range(3):
            await server.kill()
            saving = asyncio.create_task(store.save_update(update(f"{number}")))
            await server.start()
            await saving
        assert await ids(store) == ["before", "0", "1", "2"]


# --- half-open ------------------------------------------------------------------------------------


async def noticed(store: foldlog.Store) -> None:
    """Wait until the store has noticed that its connection is gone."""
    gone = asyncio.Event()
    store._core.log.on_epoch(gone.set)
    async with asyncio.timeout(PATIENCE):
        await gone.wait()


@pytest.mark.long
async def test_a_half_open_connection_is_noticed_in_15_seconds(
    proxy: Proxy, store: foldlog.Store
) -> None:
    began = asyncio.get_running_loop().time()
    proxy.hole(everything=False)
    await noticed(store)
    assert asyncio.get_running_loop().time() - began <= 15  # the promise is a time
    await store.save_update(update("1"))
    assert await ids(store) == ["before", "1"]


@pytest.mark.long
async def test_a_half_open_connection_with_much_on_its_way_is_let_go_of(
    proxy: Proxy, store: foldlog.Store
) -> None:
    """Nobody waits until what cannot be written is written."""
    proxy.hole(everything=False)
    large = [
        store.save_update(update(f"{n}", f"s{n}", content={"text": "x" * 900_000}))
        for n in range(40)
    ]
    ended = asyncio.gather(*large, return_exceptions=True)
    await noticed(store)
    await answered(lambda: store.save_update(update("1")))
    assert await ids(store) == ["before", "1"]
    assert {type(end) for end in await ended} <= {type(None), AppendUnknown, LogUnavailable}


@pytest.mark.long
async def test_a_store_on_a_half_open_connection_can_be_closed(proxy: Proxy) -> None:
    store = await foldlog.connect(proxy.url, timeout=1)
    proxy.hole()
    large = [
        store.save_update(update(f"{n}", f"s{n}", content={"text": "x" * 900_000}))
        for n in range(20)
    ]
    ended = await asyncio.gather(*large, return_exceptions=True)
    assert {type(end) for end in ended} <= {AppendUnknown, LogUnavailable}
    async with asyncio.timeout(PATIENCE):
        await store.close()


@pytest.mark.long
async def test_a_frozen_server_is_waited_for(server: LocalServer) -> None:
    async with foldlog.connect(server.url, timeout=1) as store:
        await store.save_update(update("before"))
        server.freeze()
        gone = asyncio.create_task(noticed(store))
        ends = []
        while not gone.done():
            ends.append(
                await asyncio.gather(store.save_update(update("1")), return_exceptions=True)
            )
        server.thaw()
        await gone
        assert {type(end) for (end,) in ends} <= {AppendUnknown, LogUnavailable}
        await answered(lambda: store.save_update(update("1")))
        assert await ids(store) == ["before", "1"]


@pytest.mark.long
@pytest.mark.parametrize("chunks", range(1, 5))
async def test_an_attempt_that_breaks_half_way_is_followed_by_another(
    proxy: Proxy, store: foldlog.Store, chunks: int
) -> None:
    """The server's greeting, its first answer: each may be the last thing that comes through."""
    passed = itertools.count(1)
    proxy.to_client = lambda data: data if next(passed) < chunks else None
    proxy.cut()
    await noticed(store)
    async with asyncio.timeout(PATIENCE):
        while proxy.connections < 3:
            await asyncio.gather(store.save_update(update("1")), return_exceptions=True)
    proxy.heal()
    proxy.cut()
    await answered(lambda: store.save_update(update("1")))
    assert await ids(store) == ["before", "1"]
