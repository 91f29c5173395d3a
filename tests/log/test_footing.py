"""Nothing is published over a new connection before the log was seen to hold what it held."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from foldlog.errors import AppendUnknown, FoldlogError, LogRewound, LogUnavailable
from foldlog.log.extent import Extent
from foldlog.log.jetstream import footing
from foldlog.log.jetstream.appender import Appender
from foldlog.log.jetstream.connection import ReplyLost
from foldlog.log.jetstream.footing import Footing, Prove
from foldlog.log.packing import MAX_BATCH_MESSAGES
from foldlog.subjects import Namespace
from tests.log.test_outcomes import Loss, Server, append

REWOUND = LogRewound("STREAM", 9, "it ends at 3")


class Reconnecting(Server):
    """A server whose connection was made again so many times."""

    reconnects = 0


class Proofs:
    """What looking at the log gives, one after the other; nothing, once they are used up."""

    def __init__(self, *found: FoldlogError | Callable[[], Awaitable[None]]) -> None:
        self.found = list(found)
        self.looks = 0

    async def __call__(self) -> None:
        self.looks += 1
        await asyncio.sleep(0)
        found = self.found.pop(0) if self.found else None
        if isinstance(found, FoldlogError):
            raise found
        if found is not None:
            await found()


def appender(server: Reconnecting, prove: Prove, *, timeout: float = 5, **more: Any) -> Appender:
    connection: Any = server
    made = Appender(connection, "STREAM", timeout=timeout, **more)
    made.stand_on(Footing(connection, prove))
    return made


async def ended(made: Appender, id: str) -> list[int] | FoldlogError:
    try:
        return await made.append([append(id)], atomic=False)
    except FoldlogError as error:
        return error


async def test_it_looks_once_for_each_connection() -> None:
    server, proofs = Reconnecting(), Proofs()
    made = appender(server, proofs)
    for looks in range(3):
        for n in range(3):
            assert isinstance(await ended(made, f"{looks} {n}"), list)
            assert proofs.looks == looks
        server.reconnects += 1
    await made.close()


async def test_nothing_is_published_to_a_log_that_was_rewound() -> None:
    server = Reconnecting()
    made = appender(server, Proofs(REWOUND, REWOUND))
    server.reconnects = 1
    assert [await ended(made, id) for id in "ab"] == [REWOUND, REWOUND]
    assert server.stored == []
    assert await ended(made, "c") == [1]  # it was accepted
    await made.close()


def lost_with_the_connection(server: Reconnecting) -> Loss:
    """The first request is not answered, for then the connection breaks."""

    def lose(subject: str, headers: dict[str, str]) -> str | None:
        if server.reconnects:
            return None
        server.reconnects = 1
        return "request"

    return lose


async def test_an_append_in_flight_is_not_known_when_the_log_was_rewound() -> None:
    server = Reconnecting()
    server.lose = lost_with_the_connection(server)
    made = appender(server, Proofs(REWOUND))
    error = await ended(made, "a")
    assert isinstance(error, AppendUnknown)
    assert error.ids == ["a"]
    assert "sequence 9" in str(error)
    assert server.stored == []
    await made.close()


async def test_a_bulk_append_is_not_said_to_be_nothing_where_a_part_is_stored() -> None:
    server = Reconnecting()

    def reconnect(subject: str, headers: dict[str, str]) -> None:
        server.reconnects = 1  # behind the first part

    server.lose = reconnect
    made = appender(server, Proofs(REWOUND))
    subjects = [Namespace().subject("tasks", f"{n}") for n in range(MAX_BATCH_MESSAGES + 1)]
    with pytest.raises(AppendUnknown, match="sequence 9") as unknown:
        await made.append([append("1", subject) for subject in subjects], atomic=False)
    assert len(unknown.value.ids) == len(subjects)
    assert len(server.stored) == MAX_BATCH_MESSAGES
    await made.close()


async def test_an_append_in_flight_goes_on_when_the_log_is_whole() -> None:
    server, proofs = Reconnecting(), Proofs()
    server.lose = lost_with_the_connection(server)
    made = appender(server, proofs)
    assert await ended(made, "a") == [1]
    assert (server.envelopes(), proofs.looks) == (["a"], 1)
    await made.close()


async def never() -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("silence", [LogUnavailable("no leader"), ReplyLost("it broke"), never])
async def test_where_nobody_says_it_asks_again(
    silence: FoldlogError | Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footing, "_PATIENCE", 0.01)
    server, proofs = Reconnecting(), Proofs(silence, silence)
    made = appender(server, proofs)
    server.reconnects = 1
    assert await ended(made, "a") == [1]
    assert proofs.looks == 3
    await made.close()


async def test_what_takes_long_is_given_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[float] = []

    def at_once(delay: float) -> asyncio.Timeout:
        given.append(delay)
        return asyncio.Timeout(0)

    monkeypatch.setattr(footing.asyncio, "timeout", at_once)
    server: Any = Reconnecting()
    unsure = Footing(server, Proofs(*[never] * 5))
    server.reconnects = 1
    for _ in range(5):
        with pytest.raises(LogUnavailable):
            await unsure.check(100)
    first = given[0]
    assert given == [first, first * 2, first * 4, footing._LONGEST, footing._LONGEST]


async def test_what_nobody_says_in_time_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footing, "_PATIENCE", 0.01)
    server = Reconnecting()
    made = appender(server, Proofs(*[never] * 100), timeout=0.2)
    server.reconnects = 1
    error = await ended(made, "a")
    assert type(error) is LogUnavailable
    assert server.stored == []
    await made.close()


async def test_what_is_acked_is_remembered() -> None:
    server, extent = Reconnecting(), Extent()
    made = appender(server, Proofs(), extent=extent)
    for n in range(3):
        await made.append([append(f"{n}")], atomic=False)
        assert extent.seq == n + 1
    await made.close()
