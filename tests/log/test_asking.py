"""How often a question is asked, how long each attempt may take, and which error it ends with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from foldlog.errors import AppendFailed, FoldlogError, LogTimeout, LogUnavailable, StoreClosed
from foldlog.log.jetstream.asking import PATIENCE, PAUSE
from foldlog.log.jetstream.connection import Forbidden, ReplyLost
from foldlog.log.jetstream.stream import StreamClient
from tests.faults.simulation import clock

TIMEOUT = 10.0
AWAY = LogUnavailable("no leader")
LOST = ReplyLost("no reply came")


class Connected:
    """A connection that is there, or that was closed."""

    def __init__(self, *, is_closed: bool = False) -> None:
        self.is_closed = is_closed

    async def ready(self, timeout: float) -> None:
        if self.is_closed:
            raise StoreClosed


def asked(
    ends: Sequence[FoldlogError | str], *, is_closed: bool = False
) -> tuple[object, list[float]]:
    """Ask until an attempt ends in an answer; the last of `ends` repeats.

    Return the answer or what is raised, and the seconds that each attempt was given. One whose
    reply is lost takes all of them.
    """
    given: list[float] = []

    async def attempt(timeout: float) -> object:
        given.append(timeout)
        end = ends[min(len(given), len(ends)) - 1]
        if isinstance(end, ReplyLost):
            time_passes(timeout)
        if isinstance(end, FoldlogError):
            raise end
        return end

    time_passes: Callable[[float], None]

    async def main(loop: clock.VirtualLoop) -> object:
        nonlocal time_passes

        def time_passes(seconds: float) -> None:
            loop.passed += seconds

        connection: Any = Connected(is_closed=is_closed)
        client = StreamClient(connection, "S", timeout=TIMEOUT)
        try:
            return await client.retry(attempt, patience=PATIENCE)
        except FoldlogError as error:
            return error

    return clock.run(main), given


def test_an_answer_ends_it() -> None:
    assert asked(["yes"]) == ("yes", [PATIENCE])


def test_patience_doubles_only_where_no_reply_came() -> None:
    found, given = asked([LOST, AWAY, AWAY, LOST, "yes"])
    assert found == "yes"
    assert given == [PATIENCE, *[2 * PATIENCE] * 3, 4 * PATIENCE]


def test_it_is_asked_until_time_is_up() -> None:
    found, given = asked([AWAY])
    assert found is AWAY
    assert TIMEOUT / PAUSE - 2 <= len(given) <= TIMEOUT / PAUSE + 1


def test_no_attempt_goes_beyond_the_deadline() -> None:
    found, given = asked([LOST])
    assert found is LOST
    assert sum(given) <= TIMEOUT
    assert given[:2] == [PATIENCE, 2 * PATIENCE]


def test_a_lost_reply_does_not_hide_what_was_answered_before() -> None:
    assert asked([AWAY, LOST])[0] is AWAY
    assert asked([LOST, AWAY, LOST])[0] is AWAY


@pytest.mark.parametrize("final", [Forbidden("it may not"), AppendFailed("refused")])
def test_what_is_final_is_not_asked_again(final: FoldlogError) -> None:
    found, given = asked([AWAY, final])
    assert found is final
    assert len(given) == 2


def test_an_incomplete_answer_is_asked_for_again() -> None:
    late = LogTimeout("reading", TIMEOUT)
    assert asked([late, "yes"])[0] == "yes"
    assert asked([late])[0] is late


def test_nothing_is_asked_again_over_a_closed_connection() -> None:
    found, given = asked([AWAY], is_closed=True)
    assert isinstance(found, StoreClosed)
    assert len(given) == 1
