"""Asking a server, and asking again until the time is up: the one loop of all questions.

An attempt has an answer, or ends in one of these:

- `LogUnavailable`: the server did not act on it. It is made again after a pause.
- `ReplyLost`: whether the server acted on it is not known. It is made again with twice the
  patience, since the next leader does not hear what the last one was asked. A question that must
  not be repeated is not asked again.
- `Forbidden`: final, as is every other error.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Coroutine, Iterable
from typing import Any, Final, TypeVar

import msgspec

from foldlog.errors import LogUnavailable
from foldlog.log.jetstream.connection import Connection, Forbidden, ReplyLost

PATIENCE: Final = 1.0
"""Seconds before a leader that has not answered is asked again; doubled each time."""

PAUSE: Final = 0.05
"""Seconds between attempts."""

LAG_PAUSE: Final = 0.02
"""Seconds to give a replica that lags behind the leader's head."""

_LEAST: Final = 0.001

T = TypeVar("T")


class Asking:
    """The time that a question has, and the patience of its attempts.

    Args:
        deadline: when time is up, by `time.monotonic()`.
        patience: the seconds that the first attempt may take.
    """

    def __init__(self, connection: Connection, deadline: float, patience: float = math.inf) -> None:
        self.deadline = deadline
        self.patience: float = patience
        self._connection = connection
        self._reason: LogUnavailable | None = None

    @property
    def left(self) -> float:
        """Seconds until time is up."""
        return self.deadline - time.monotonic()

    @property
    def timeout(self) -> float:
        """Seconds that the next attempt may take."""
        return max(min(self.left, self.patience), _LEAST)

    async def again(self, error: LogUnavailable, pause: float = PAUSE) -> None:
        """Return when the next attempt is due, after one that ended in `error`.

        Raises:
            LogUnavailable: time is up. It is the last attempt's error, but one that got no reply
                does not hide what one before it was answered. Or there is no connection.
            StoreClosed: this end has closed it.
        """
        is_lost = isinstance(error, ReplyLost)
        if self._reason is None or not is_lost:
            self._reason = error
        if isinstance(error, Forbidden) or self.left <= pause:
            raise self._reason from error.__cause__
        await self._connection.ready(self.left)
        if is_lost:
            self.patience *= 2
        await asyncio.sleep(pause)


async def ask(
    connection: Connection, verb: str, answer: type[T], body: object = None, *, timeout: float
) -> T:
    """Ask JetStream's API once; the caller looks at the answer's `error`."""
    payload = b"" if body is None else msgspec.json.encode(body)
    msg = await connection.request(f"$JS.API.{verb}", payload, timeout=timeout)
    return msgspec.json.decode(msg.data, type=answer)


async def wait_for_all(asked: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return what all of them return, in order; raise the first error when all have ended."""
    found = await asyncio.gather(*asked, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return [each for each in found if not isinstance(each, BaseException)]
