"""Asking the leader of one stream. Each question is repeated until its time is up."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from foldlog.errors import ConfigurationError, LogTimeout, LogUnavailable
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.client import Outgoing
from foldlog.log.jetstream.connection import Connection
from foldlog.log.jetstream.requests import PATIENCE, ask, ask_all, found_message, retry
from foldlog.log.port import Stored

_FIRST_TIME: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST_TIME: Final = dt.datetime(2262, 1, 1, tzinfo=dt.UTC)
"""The server counts nanoseconds in 64 bits, and takes a time beyond them for another."""

_DELETED_AT_ONCE: Final = 16
"""Deletions under way at once. The server makes one after the other, and takes what else comes over
the same connection in between (decision 19 says what one costs)."""

T = TypeVar("T")

_delete_decoder = msgspec.json.Decoder(wire.DeleteAnswer)


class StreamClient:
    """Asks one stream. Holds no resources.

    Deadlines are of `time.monotonic()`; without one a question has `timeout` seconds. Every method
    raises LogTimeout or LogUnavailable if nobody answered by then.

    Args:
        check: awaited before each question about messages, so that none goes over a new
            connection unchecked, and before each deletion; what it raises is raised. None: this
            asks whatever the stream may have lost.
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

    async def message(
        self, request: Mapping[str, object], deadline: float | None = None
    ) -> Stored | None:
        """Return the one message that the leader has for a request, or None."""

        async def attempt(timeout: float) -> Stored | None:
            verb = f"STREAM.MSG.GET.{self.name}"
            answer = await ask(self.connection, verb, wire.MessageAnswer, request, timeout=timeout)
            return stored_of(answer)

        return await self.retry(attempt, deadline, PATIENCE)

    async def last_of(self, matching: str, deadline: float | None = None) -> Stored | None:
        """Return the last message whose subject matches, or None."""
        return await self.message({"last_by_subj": matching}, deadline)

    async def sequence_at(self, everything: str, moment: dt.datetime) -> int:
        """Return `Log.sequence_at`; `everything` matches all subjects of the stream."""
        # The head first: a message after it is of a later time, too.
        last = await self.last_of(everything)
        since = max(_FIRST_TIME, min(moment, _LAST_TIME)).astimezone(dt.UTC)
        since += dt.timedelta(microseconds=1)
        later = await self.message({"start_time": since.isoformat(), "next_by_subj": everything})
        head = 0 if last is None else last.seq
        return head if later is None else min(head, later.seq - 1)

    async def subjects(self, matching: str, deadline: float | None = None) -> dict[str, int]:
        """Return how many messages the leader counts on each subject that matches.

        It counts those that it cannot read, too.
        """
        counts: dict[str, int] = {}

        async def attempt(timeout: float) -> wire.StreamDescription:
            body = {"subjects_filter": matching, "offset": len(counts)}
            return self._checked(await self._info(body, timeout))

        while True:
            answer = await self.retry(attempt, deadline)
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
        """Return its leader's description.

        After some seconds without a leader any replica answers for itself (nats-server,
        `jsStreamInfoRequest`), and may not know yet what was acked: nothing to decide on.

        Raises:
            LogUnavailable: also, the stream is not there or has no leader.
        """
        return self._checked(await self.describe())

    async def erase(self, matching: str, *, before: float = math.inf) -> None:
        """Remove the messages whose subject matches and whose sequence is below `before`.

        The server overwrites each with random bytes in its file before it answers (nats-server,
        `eraseMsg`). The oldest go first. Erasing again is safe after any error.

        Raises:
            ConfigurationError: the stream denies it.
        """
        after = 0
        while found := await self._next(matching, after, before):
            await self.retry(partial(self._delete, found))
            after = found[-1]
        # What cannot be read cannot be found either, but purged.
        bound = {} if math.isinf(before) else {"seq": before}
        await self.purge({"filter": matching, **bound})

    async def _next(self, matching: str, after: int, before: float) -> list[int]:
        """Return the sequences of the next messages that match, as the leader has them."""
        found = list[int]()
        while len(found) < _DELETED_AT_ONCE:
            stored = await self.message({"seq": after + 1, "next_by_subj": matching})
            if stored is None or stored.seq >= before:
                break
            found.append(after := stored.seq)
        return found

    async def _delete(self, seqs: Sequence[int], timeout: float) -> None:
        verb = f"$JS.API.STREAM.MSG.DELETE.{self.name}"
        requests = [Outgoing(verb, msgspec.json.encode({"seq": seq})) for seq in seqs]
        replies = await ask_all(self.connection, requests, timeout=timeout)
        for seq, reply in zip(seqs, replies, strict=True):
            error = _delete_decoder.decode(reply.data).error
            if error is None or await self.message({"seq": seq}) is None:  # others were faster
                continue
            if (await self.describe()).config.deny_delete:
                raise ConfigurationError(
                    f"stream {self.name} denies deletes, so nothing can be erased in it; the "
                    "server does not let that be changed: copy what is to stay to a new namespace"
                )
            raise LogUnavailable(f"erasing in {self.name}: {error.description}")

    async def purge(
        self,
        body: Mapping[str, object],
        *,
        timeout: float | None = None,
        missing_ok: bool = False,
    ) -> None:
        """Purge once. A body without a filter purges all subjects.

        Args:
            timeout: in seconds; None: as for every question.
            missing_ok: whether there need not be such a stream.
        """
        verb, timeout = f"STREAM.PURGE.{self.name}", timeout or self.timeout
        answer = await ask(self.connection, verb, wire.PurgeAnswer, body, timeout=timeout)
        if (error := answer.error) and not (missing_ok and error.err_code == wire.NO_STREAM):
            raise LogUnavailable(f"purging {self.name}: {error.description}")

    async def confirm_leader(self, nowhere: str) -> None:
        """Return when a majority has confirmed the leader; `nowhere` is an empty subject of it.

        Purging that changes nothing, but is an entry in the replicas' log like any other: the
        answer comes when a majority has it and the leader has applied all that came before.

        Raises:
            LogTimeout: no majority answered.
        """
        assert nowhere, "a purge without a filter would empty the stream"

        async def attempt(timeout: float) -> None:
            await self.purge({"filter": nowhere}, timeout=timeout)

        deadline = time.monotonic() + self.timeout
        try:
            await retry(self.connection, attempt, deadline, patience=PATIENCE)
        except LogUnavailable as error:
            raise LogTimeout(f"a majority of {self.name}'s replicas", self.timeout) from error

    async def retry(
        self,
        attempt: Callable[[float], Awaitable[T]],
        deadline: float | None = None,
        patience: float = float("inf"),
    ) -> T:
        """Return what `attempt` returns, after the check: see `requests.retry`."""
        if deadline is None:
            deadline = time.monotonic() + self.timeout
        return await retry(
            self.connection, attempt, deadline, patience=patience, before=self._check
        )

    async def _info(self, body: Any, timeout: float) -> wire.StreamDescription:
        verb = f"STREAM.INFO.{self.name}"
        return await ask(self.connection, verb, wire.StreamDescription, body, timeout=timeout)

    def _checked(self, found: wire.StreamDescription) -> wire.StreamDescription:
        if found.error is not None:
            raise LogUnavailable(f"{self.name}: {found.error.description}")
        if found.is_leaderless:
            raise LogUnavailable(f"{self.name} has no leader, so nobody knows what it holds")
        return found


def stored_of(answer: wire.MessageAnswer) -> Stored | None:
    """Return the message that a leader answered with. Errors as `found_message`."""
    found = found_message(answer)
    return None if found is None else Stored(found.subject, found.seq, found.time, found.data)
