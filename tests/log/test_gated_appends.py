"""Nothing is published over a new connection before the log was seen to hold what it held."""

from __future__ import annotations

import pytest

from foldlog.errors import AppendUnknown, FoldlogError, LogRewound, LogUnavailable
from foldlog.log.jetstream.appender import Appender
from foldlog.log.jetstream.connection import ReplyLost
from foldlog.log.packing import MAX_BATCH_MESSAGES
from foldlog.subjects import Namespace
from tests.log.marks import FakeGate, open_appender
from tests.log.test_outcomes import Server, append

REWOUND = LogRewound("STREAM", 9, "it ends at 3")


async def ended(made: Appender, id: str) -> list[int] | FoldlogError:
    try:
        return await made.append([append(id)], atomic=False)
    except FoldlogError as error:
        return error


async def test_nothing_is_published_to_a_log_that_was_rewound() -> None:
    server = Server()
    made = open_appender(server, FakeGate(REWOUND, REWOUND))
    assert [await ended(made, id) for id in "ab"] == [REWOUND, REWOUND]
    assert server.stored == []
    assert await ended(made, "c") == [1]  # it was accepted
    await made.close()


def closing(gate: FakeGate, server: Server) -> None:
    """The first request is not answered, for then the connection breaks."""

    def lose(subject: str, headers: dict[str, str]) -> str | None:
        if server.requests > 1:
            return None
        gate.is_open = False
        return "request"

    server.lose = lose
    gate.is_open = True


async def test_an_append_in_flight_is_not_known_when_the_log_was_rewound() -> None:
    server, gate = Server(), FakeGate(REWOUND)
    closing(gate, server)
    made = open_appender(server, gate)
    error = await ended(made, "a")
    assert isinstance(error, AppendUnknown)
    assert error.ids == ["a"]
    assert "sequence 9" in str(error)
    assert server.stored == []
    await made.close()


async def test_a_bulk_append_is_not_said_to_be_nothing_where_a_part_is_stored() -> None:
    server, gate = Server(), FakeGate(REWOUND)
    gate.is_open = True

    def reconnect(subject: str, headers: dict[str, str]) -> None:
        gate.is_open = False  # after the first part

    server.lose = reconnect
    made = open_appender(server, gate)
    subjects = [Namespace().subject("tasks", f"{n}") for n in range(MAX_BATCH_MESSAGES + 1)]
    with pytest.raises(AppendUnknown, match="sequence 9") as unknown:
        await made.append([append("1", subject) for subject in subjects], atomic=False)
    assert len(unknown.value.ids) == len(subjects)
    assert len(server.stored) == MAX_BATCH_MESSAGES
    await made.close()


async def test_an_append_in_flight_goes_on_when_the_log_is_whole() -> None:
    server, gate = Server(), FakeGate()
    closing(gate, server)
    made = open_appender(server, gate)
    assert await ended(made, "a") == [1]
    assert (server.envelopes(), gate.checks) == (["a"], 1)
    await made.close()


async def test_where_nobody_says_it_asks_again() -> None:
    server, gate = Server(), FakeGate(*[LogUnavailable("no leader")] * 2)
    made = open_appender(server, gate)
    assert await ended(made, "a") == [1]
    assert gate.checks == 3
    await made.close()


@pytest.mark.parametrize("silence", [LogUnavailable("no leader"), ReplyLost("it broke")])
async def test_what_nobody_says_in_time_is_not_committed(silence: LogUnavailable) -> None:
    server = Server()
    made = open_appender(server, FakeGate(*[silence] * 100), timeout=0.2)
    error = await ended(made, "a")
    assert type(error) is LogUnavailable
    assert server.stored == []
    await made.close()


async def test_what_is_acked_is_known() -> None:
    server, gate = Server(), FakeGate()
    made = open_appender(server, gate)
    for n in range(3):
        await made.append([append(f"{n}")], atomic=False)
        assert gate.known == n + 1
    await made.close()
