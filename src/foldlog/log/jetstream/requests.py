"""Asking JetStream's API: one question, and the loop that repeats it until it is answered."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import LogTimeout, LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.client import Outgoing
from foldlog.log.jetstream.connection import Connection, Forbidden, ReplyLost

PATIENCE: Final = 1.0
"""Seconds before a leader that has not answered is asked again; doubled each time.

Who leads next does not hear what was asked before.
"""

_PAUSE: Final = 0.05
_LEAST: Final = 0.001

T = TypeVar("T")


async def retry(
    connection: Connection,
    attempt: Callable[[float], Awaitable[T]],
    deadline: float,
    *,
    patience: float = math.inf,
    before: Callable[[], Awaitable[None]] | None = None,
) -> T:
    """Return what `attempt` returns; call it again after each LogUnavailable until `deadline`.

    Args:
        attempt: asks something that may be repeated. Its argument is the seconds that it may take.
        deadline: of `time.monotonic()`.
        patience: the seconds that the first attempt may take; doubled where no reply came.
        before: awaited before each attempt. What it raises ends the loop.

    Raises:
        LogTimeout, LogUnavailable: the last attempt's, or there is no connection.
        StoreClosed: this end has closed it.
    """
    while True:
        if before is not None:
            await before()
        left = deadline - time.monotonic()
        try:
            return await attempt(max(min(left, patience), _LEAST))
        except (LogTimeout, Forbidden):
            raise
        except LogUnavailable as error:
            left = deadline - time.monotonic()
            if left <= _PAUSE:
                raise
            await connection.ready(left)
            if isinstance(error, ReplyLost):
                patience *= 2
            else:
                await asyncio.sleep(_PAUSE)


async def ask(
    connection: Connection, verb: str, answer: type[T], body: object = None, *, timeout: float
) -> T:
    """Ask once; the caller looks at the answer's `error`. Errors as `Connection.request`."""
    payload = b"" if body is None else msgspec.json.encode(body)
    msg = await connection.request(f"$JS.API.{verb}", payload, timeout=timeout)
    return msgspec.json.decode(msg.data, type=answer)


async def ask_all(
    connection: Connection, requests: Sequence[Outgoing], *, timeout: float
) -> list[Msg]:
    """Send requests to one subject at once; return the reply to each, in order.

    Raises:
        Forbidden: this account may not send them. ReplyLost: a reply did not come in time.
    """
    subject = requests[0].subject
    if not connection.forbids(subject):
        replies = await connection.request_each(requests, timeout=timeout)
        found = [reply for reply in replies if reply is not None]
        if len(found) == len(replies):
            return found
    if connection.forbids(subject):
        raise Forbidden(f"this account may not send to {subject}")
    raise ReplyLost(f"{subject}: no reply came in {timeout:g} s")


def found_message(answer: wire.MessageAnswer) -> wire.StoredMessage | None:
    """Return the message that a leader has, or None.

    Raises:
        LogUnavailable: it did not say.
    """
    if answer.error is None:
        return answer.message
    if answer.error.err_code == wire.NO_MESSAGE:
        return None
    raise LogUnavailable(answer.error.description)
