"""Who waits for which reply: one inbox for all requests of a connection.

Each reply subject ends in a token of its own. A waiter holds one token or several; it is told of
each reply, and it is told when the connection breaks, so that nobody waits out a timeout for an
answer that cannot come.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nats.aio.msg import Msg

Take = Callable[[int, Msg], bool]
"""Takes the reply to the n-th token; returns whether the waiter has all it waits for."""


class Replies:
    """The requests of one connection that still wait."""

    def __init__(self) -> None:
        self._tokens = itertools.count(1)
        self._waiting: dict[str, tuple[asyncio.Future[bool], Take, int]] = {}

    @contextmanager
    def expected(
        self, take: Take, count: int = 1
    ) -> Iterator[tuple[list[str], asyncio.Future[bool]]]:
        """Hand out `count` tokens, and a future: True when all came, False when they cannot."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        tokens = [str(token) for token in itertools.islice(self._tokens, count)]
        for index, token in enumerate(tokens):
            self._waiting[token] = (done, take, index)
        try:
            yield tokens, done
        finally:
            for token in tokens:
                self._waiting.pop(token, None)
            done.cancel()

    def arrived(self, token: str, msg: Msg) -> None:
        """Pass a reply on; one that nobody waits for any more is dropped."""
        waiting = self._waiting.get(token)
        if waiting is not None:
            done, take, index = waiting
            if not done.done() and take(index, msg):
                done.set_result(True)

    def lose_all(self) -> None:
        """Tell everyone that no more replies will come."""
        for done, _, _ in self._waiting.values():
            if not done.done():
                done.set_result(False)
