"""Writers beyond the bound of pending bytes wait, in order, and can be cancelled."""

from __future__ import annotations

import asyncio

import pytest

from foldlog.envelope import draft
from foldlog.errors import AppendConflict, AppendUnknown, LogUnavailable, StoreClosed
from foldlog.log.jetstream import appender as module
from foldlog.log.jetstream.client import Outgoing
from foldlog.log.port import Append
from tests.log.marks import open_appender
from tests.log.test_outcomes import SUBJECT, Reply, Server

BYTES = 1000


class Held(Server):
    """A server that takes nothing until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.let_go = asyncio.Event()

    async def request_each(
        self, messages: list[Outgoing], *, timeout: float, asks: int
    ) -> list[Reply | None]:
        await self.let_go.wait()
        return await super().request_each(messages, timeout=timeout, asks=asks)


def append(name: str, expect: int | None = None) -> Append:
    return Append(SUBJECT, (draft("update.saved", bytes(BYTES), id=name),), expect)


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    monkeypatch.setattr(module, "MAX_PENDING_BYTES", 3 * BYTES)
    return Held()


async def test_writers_beyond_the_bound_wait_and_keep_their_order(held: Held) -> None:
    appender = open_appender(held, timeout=5)
    writing = [
        asyncio.create_task(appender.append([append(f"{n}")], atomic=False)) for n in range(50)
    ]
    await turns()
    assert appender.pending_bytes <= 3 * BYTES
    held.let_go.set()
    seqs = [seq for (seq,) in await asyncio.gather(*writing)]
    assert seqs == sorted(seqs)
    assert appender.pending_bytes == 0
    await appender.close()


async def test_a_waiting_writer_can_be_cancelled(held: Held) -> None:
    appender = open_appender(held, timeout=5)
    writing = [
        asyncio.create_task(appender.append([append(f"{n}")], atomic=False)) for n in range(20)
    ]
    await turns()
    for task in writing[1::2]:
        task.cancel()
    held.let_go.set()
    ended = await asyncio.gather(*writing, return_exceptions=True)
    assert all(isinstance(end, list) for end in ended[::2])
    assert all(isinstance(end, asyncio.CancelledError | list) for end in ended)
    assert isinstance(ended[19], asyncio.CancelledError)
    assert appender.pending_bytes == 0
    await appender.close()


async def test_closing_tells_those_who_wait_for_room(held: Held) -> None:
    appender = open_appender(held, timeout=0.05)
    writing = [
        asyncio.create_task(appender.append([append(f"{n}")], atomic=False)) for n in range(20)
    ]
    await turns()
    await appender.close()
    ended = await asyncio.wait_for(asyncio.gather(*writing, return_exceptions=True), 30)
    assert all(isinstance(end, StoreClosed | AppendUnknown) for end in ended)
    assert isinstance(ended[-1], StoreClosed)
    assert appender.pending_bytes == 0


async def test_a_close_that_is_given_up_leaves_no_task(held: Held) -> None:
    appender = open_appender(held, timeout=60)
    writing = asyncio.create_task(appender.append([append("1")], atomic=False))
    await turns()
    closing = asyncio.create_task(appender.close())
    await turns()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    with pytest.raises(AppendUnknown):
        await writing


async def test_what_never_fits_in_time_is_told_not_committed(held: Held) -> None:
    appender = open_appender(held, timeout=0.05)
    held.let_go.set()

    async def away(*args: object, **options: object) -> list[Reply | None]:
        raise LogUnavailable("away")

    held.request_each = away  # type: ignore[method-assign]
    writing = [
        asyncio.create_task(appender.append([append(f"{n}")], atomic=False)) for n in range(20)
    ]
    ended = await asyncio.gather(*writing, return_exceptions=True)
    assert all(isinstance(end, LogUnavailable) for end in ended)
    assert appender.pending_bytes == 0
    assert held.stored == []
    await appender.close()


async def test_compare_and_sets_beyond_the_bound_wait_too(held: Held) -> None:
    appender = open_appender(held, timeout=5)
    writing = [
        asyncio.create_task(appender.append([append(f"{n}", expect=0)], atomic=True))
        for n in range(20)
    ]
    await turns()
    assert 0 < appender.pending_bytes <= 3 * BYTES
    for task in writing[1::2]:
        task.cancel()
    held.let_go.set()
    ended = await asyncio.gather(*writing, return_exceptions=True)
    assert ended[0] == [1]
    assert all(isinstance(end, AppendConflict) for end in ended[2::2])
    assert all(isinstance(end, asyncio.CancelledError) for end in ended[1::2])
    assert appender.pending_bytes == 0
    await appender.close()


async def test_closing_tells_compare_and_sets_that_wait(held: Held) -> None:
    appender = open_appender(held, timeout=0.05)
    writing = [
        asyncio.create_task(appender.append([append(f"{n}", expect=n)], atomic=True))
        for n in range(20)
    ]
    await turns()
    await appender.close()
    ended = await asyncio.wait_for(asyncio.gather(*writing, return_exceptions=True), 30)
    assert all(isinstance(end, StoreClosed | AppendUnknown) for end in ended)
    assert isinstance(ended[-1], StoreClosed)
    assert appender.pending_bytes == 0


async def test_a_compare_and_set_is_told_its_outcome_while_others_queue(held: Held) -> None:
    appender = open_appender(held, timeout=5)
    decided = asyncio.create_task(appender.append([append("0", expect=0)], atomic=True))
    await turns()
    writing = [
        asyncio.create_task(appender.append([append(f"{n}")], atomic=False)) for n in range(1, 3)
    ]
    held.let_go.set()
    assert await decided == [1]
    await asyncio.gather(*writing)
    await appender.close()
