"""Asking JetStream, and in particular a stream's leader, who alone knows where the stream ends."""

from __future__ import annotations

import asyncio
from typing import Final, TypeVar

import msgspec

from foldlog.errors import LogTimeout, LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.connection import Connection, ReplyLost

_FIRST_PATIENCE: Final = 1.0
_LONGEST_PATIENCE: Final = 8.0
"""Seconds before a question that nobody has answered is asked again; doubled each time."""

_CONFIRM_SECONDS: Final = 1.0
"""Seconds before a majority is asked again: a leader that is deposed meanwhile answers nobody."""

_RETRY_PAUSE: Final = 0.05

T = TypeVar("T")


async def api(
    connection: Connection, verb: str, answer: type[T], body: object = None, *, timeout: float
) -> T:
    """Ask JetStream's API; the caller looks at the answer's `error`."""
    payload = b"" if body is None else msgspec.json.encode(body)
    msg = await connection.request(f"$JS.API.{verb}", payload, timeout=timeout)
    return msgspec.json.decode(msg.data, type=answer)


async def ask(
    connection: Connection, verb: str, answer: type[T], body: object = None, *, timeout: float
) -> T:
    """As `api`, of a question that may be repeated: while there is no leader nobody answers.

    Who leads next does not hear what was asked before.
    """
    loop = asyncio.get_running_loop()
    deadline, patience = loop.time() + timeout, _FIRST_PATIENCE
    while True:
        left = deadline - loop.time()
        try:
            return await api(connection, verb, answer, body, timeout=min(left, patience))
        except ReplyLost:
            if left <= patience or connection.forbids(f"$JS.API.{verb}"):
                raise
            patience = min(2 * patience, _LONGEST_PATIENCE)


async def describe(
    connection: Connection, stream: str, *, timeout: float
) -> wire.StreamDescription:
    """Return a stream's settings and state; its `error` is set where it is not there."""
    return await ask(connection, f"STREAM.INFO.{stream}", wire.StreamDescription, timeout=timeout)


async def described(
    connection: Connection, stream: str, *, timeout: float
) -> wire.StreamDescription:
    """Return what a stream's leader says of it.

    After some seconds without a leader any replica answers for itself (nats-server,
    `jsStreamInfoRequest`), and may not know yet what was acked: nothing to decide on.

    Raises:
        LogUnavailable: nobody answered, or the stream is not there or has no leader.
    """
    found = await describe(connection, stream, timeout=timeout)
    if found.error is not None:
        raise LogUnavailable(f"{stream}: {found.error.description}")
    if found.is_leaderless:
        raise LogUnavailable(f"{stream} has no leader, so nobody knows where it ends")
    return found


async def message(
    connection: Connection, stream: str, request: object, *, timeout: float
) -> wire.StoredMessage | None:
    """Return the message that a stream's leader has for a request, or None.

    Raises:
        LogUnavailable: the leader did not say.
    """
    verb = f"STREAM.MSG.GET.{stream}"
    answer = await api(connection, verb, wire.MessageAnswer, request, timeout=timeout)
    if answer.error is None:
        return answer.message
    if answer.error.err_code == wire.NO_MESSAGE:
        return None
    raise LogUnavailable(answer.error.description)


async def confirm(connection: Connection, stream: str, nowhere: str, *, timeout: float) -> None:
    """Return when a majority has confirmed a stream's leader; `nowhere` is an empty subject of it.

    Purging that changes nothing, but is an entry in the replicas' log like any other, and
    answered when a majority has it and the leader has applied all that came before.

    Raises:
        LogTimeout, LogUnavailable: no majority answered.
    """
    assert nowhere, "a purge without a filter would empty the stream"
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while True:
        left = deadline - loop.time()
        try:
            await connection.ready(left)
            answer = await api(
                connection,
                f"STREAM.PURGE.{stream}",
                wire.PurgeAnswer,
                {"filter": nowhere},
                timeout=min(left, _CONFIRM_SECONDS),
            )
            if answer.error is None:
                return
            error = LogUnavailable(answer.error.description)
        except LogUnavailable as unavailable:
            error = unavailable
        if loop.time() + _RETRY_PAUSE >= deadline:
            raise LogTimeout(f"a majority of {stream}'s replicas", timeout) from error
        if not isinstance(error, ReplyLost):
            await asyncio.sleep(_RETRY_PAUSE)
