"""The questions to one stream. Any replica answers a direct get; the leader alone the others.

Each is repeated until somebody answers or its time is up.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec
from nats.aio.msg import Msg

from foldlog.errors import LogTimeout, LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.connection import Connection, status_of
from foldlog.log.jetstream.parser import Incoming
from foldlog.log.jetstream.requests import PATIENCE, ask, found_message, retry
from foldlog.log.jetstream.server_details import PAGE_HEADERS

T = TypeVar("T")


class Delivered(NamedTuple):
    """A message of a direct get; `previous` is the one before it in its page, 0 for none.

    `time` is the log's clock, RFC 3339.
    """

    subject: str
    seq: int
    time: str
    previous: int
    data: bytes


class StreamClient:
    """Asks one stream. Holds no resources.

    Deadlines are of `time.monotonic()`; without one a question has `timeout` seconds. Each raises
    LogTimeout or LogUnavailable if nobody answered by then, and what `check` raises.

    Args:
        check: awaited before each question about messages, so that none goes over a new
            connection unchecked. None: this asks whatever the stream may have lost.
    """

    def __init__(
        self,
        connection: Connection,
        name: str,
        *,
        timeout: float,
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.connection = connection
        self.name = name
        self.timeout = timeout
        self._check = check

    # --- messages -------------------------------------------------------------------------------

    async def get(self, request: dict[str, object], deadline: float) -> Delivered | None:
        """Return the one message that some replica has for a request, or None."""
        payload = msgspec.json.encode(request)

        async def attempt(timeout: float) -> Delivered | None:
            msg = await self.connection.request(self._direct, payload, timeout=timeout)
            if (status := status_of(msg)) is None:
                return _delivered(msg)
            if status == "404":
                return None
            raise LogUnavailable(f"reading {self.name}: {_described(msg)}")

        return await self._retry(attempt, deadline)

    async def page(
        self, request: dict[str, object], deadline: float
    ) -> tuple[Sequence[Delivered], int]:
        """Return the messages that a direct get of many brings, and how many come after them."""
        payload = msgspec.json.encode(request)

        async def attempt(timeout: float) -> tuple[Sequence[Delivered], int]:
            *messages, end = await self.connection.collect(self._direct, payload, timeout=timeout)
            status = status_of(end)
            if status == "404":
                return [], 0
            if status != "204":
                raise LogUnavailable(f"reading {self.name}: {_described(end)}")
            found = [_delivered(msg) for msg in messages]
            if not _is_chain(found):
                # A reply of the page was lost on its way here; the log still has it.
                raise LogUnavailable(f"reading {self.name}: a page came with a gap")
            return found, int((end.headers or {}).get("Nats-Num-Pending", "0"))

        return await self._retry(attempt, deadline)

    async def message(
        self, request: dict[str, object], deadline: float | None = None
    ) -> wire.StoredMessage | None:
        """Return the one message that the leader has for a request, or None."""

        async def attempt(timeout: float) -> wire.StoredMessage | None:
            verb = f"STREAM.MSG.GET.{self.name}"
            return found_message(await self._ask(verb, wire.MessageAnswer, request, timeout))

        return await self._retry(attempt, deadline, PATIENCE)

    async def subjects(self, matching: str, deadline: float | None = None) -> dict[str, int]:
        """Return how many messages the leader counts on each subject that matches.

        It counts those that it cannot read, too.
        """
        counts: dict[str, int] = {}

        async def attempt(timeout: float) -> wire.StreamDescription:
            body = {"subjects_filter": matching, "offset": len(counts)}
            return self._led(await self._info(body, timeout))

        while True:
            answer = await self._retry(attempt, deadline)
            counts.update(answer.state.subjects)
            if not answer.state.subjects or len(counts) >= answer.total:
                return counts

    # --- the stream -----------------------------------------------------------------------------

    async def describe(self) -> wire.StreamDescription:
        """Return its settings and state; `error` is set where there is no such stream."""

        async def attempt(timeout: float) -> wire.StreamDescription:
            return await self._info(None, timeout)

        deadline = time.monotonic() + self.timeout
        return await retry(self.connection, attempt, deadline, patience=PATIENCE)

    async def describe_by_leader(self) -> wire.StreamDescription:
        """Return what its leader says of it.

        After some seconds without a leader any replica answers for itself (nats-server,
        `jsStreamInfoRequest`), and may not know yet what was acked: nothing to decide on.

        Raises:
            LogUnavailable: also, the stream is not there or has no leader.
        """
        return self._led(await self.describe())

    async def purge(self, body: Mapping[str, object]) -> wire.PurgeAnswer:
        """Purge once. A body without a filter purges all subjects. Errors as `requests.ask`."""
        return await self._ask(f"STREAM.PURGE.{self.name}", wire.PurgeAnswer, body, self.timeout)

    async def confirm_leader(self, nowhere: str) -> None:
        """Return when a majority has confirmed the leader; `nowhere` is an empty subject of it.

        Purging that changes nothing, but is an entry in the replicas' log like any other, and
        answered when a majority has it and the leader has applied all that came before.

        Raises:
            LogTimeout: no majority answered.
        """
        assert nowhere, "a purge without a filter would empty the stream"

        async def attempt(timeout: float) -> None:
            verb, body = f"STREAM.PURGE.{self.name}", {"filter": nowhere}
            answer = await self._ask(verb, wire.PurgeAnswer, body, timeout)
            if answer.error is not None:
                raise LogUnavailable(answer.error.description)

        deadline = time.monotonic() + self.timeout
        try:
            await retry(self.connection, attempt, deadline, patience=PATIENCE)
        except LogUnavailable as error:
            raise LogTimeout(f"a majority of {self.name}'s replicas", self.timeout) from error

    # --- how ------------------------------------------------------------------------------------

    @property
    def _direct(self) -> str:
        return f"$JS.API.DIRECT.GET.{self.name}"

    async def _retry(
        self,
        attempt: Callable[[float], Awaitable[T]],
        deadline: float | None,
        patience: float = float("inf"),
    ) -> T:
        if deadline is None:
            deadline = time.monotonic() + self.timeout
        return await retry(
            self.connection, attempt, deadline, patience=patience, before=self._check
        )

    async def _ask(self, verb: str, answer: type[T], body: Any, timeout: float) -> T:
        return await ask(self.connection, verb, answer, body, timeout=timeout)

    async def _info(self, body: Any, timeout: float) -> wire.StreamDescription:
        return await self._ask(f"STREAM.INFO.{self.name}", wire.StreamDescription, body, timeout)

    def _led(self, found: wire.StreamDescription) -> wire.StreamDescription:
        if found.error is not None:
            raise LogUnavailable(f"{self.name}: {found.error.description}")
        if found.is_leaderless:
            raise LogUnavailable(f"{self.name} has no leader, so nobody knows what it holds")
        return found


def _delivered(msg: Msg) -> Delivered:
    found = PAGE_HEADERS.search(msg.block) if isinstance(msg, Incoming) else None
    if found is not None:
        subject, seq, stored, previous = found.groups()
        return Delivered(subject.decode(), int(seq), stored.decode(), int(previous), msg.data)
    headers = msg.headers or {}
    return Delivered(
        headers.get("Nats-Subject", ""),
        int(headers["Nats-Sequence"]),
        headers["Nats-Time-Stamp"],
        int(headers.get("Nats-Last-Sequence", "0")),
        msg.data,
    )


def _is_chain(page: Sequence[Delivered]) -> bool:
    """Whether each message of a page names the one before it; the server starts with 0."""
    previous = 0
    for each in page:
        if each.previous != previous:
            return False
        previous = each.seq
    return True


def _described(msg: Msg) -> str:
    headers = msg.headers or {}
    return f"{headers.get('Status')} {headers.get('Description', '')}"
