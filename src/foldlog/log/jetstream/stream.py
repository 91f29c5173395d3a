"""Asking the leader of one stream. Each question is repeated until its time is up."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from foldlog.errors import ConfigurationError, LogTimeout, LogUnavailable, UnsupportedServer
from foldlog.log.jetstream import wire
from foldlog.log.jetstream.asking import PATIENCE, Asking, ask
from foldlog.log.jetstream.client import Outgoing
from foldlog.log.jetstream.connection import Connection, ReplyLost
from foldlog.log.port import Stored
from foldlog.subjects import Namespace, live

_SHARDS: Final = "foldlog.shards"
_FORMAT: Final = "foldlog.format"
FORMAT: Final = "2"
"""What a log of this version looks like; in format 1 large values belonged to no view."""

_RELIED_ON: Final = ("subjects", "allow_direct", "allow_atomic", "republish")
"""The settings that must be as `_config` has them; others are the operator's."""

DUPLICATE_SECONDS: Final = 120.0
"""How long a stream remembers message ids: a later retry would be stored a second time."""

_FIRST_TIME: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LAST_TIME: Final = dt.datetime(2262, 1, 1, tzinfo=dt.UTC)
"""The server counts nanoseconds in 64 bits, and takes a time beyond them for another."""

_DELETED_AT_ONCE: Final = 16
"""Deletions under way at once. The server makes one after the other, and takes what else comes over
the same connection in between (decision 19 says what one costs)."""

T = TypeVar("T")
A = TypeVar("A", bound=wire.Answer)

_answer_decoder = msgspec.json.Decoder(wire.Answer)


class StreamClient:
    """Asks one stream. Holds no resources.

    Deadlines are of `time.monotonic()`; without one a question has `timeout` seconds. Every method
    raises LogTimeout or LogUnavailable if nobody answered by then.

    Args:
        check: awaited before each attempt, so that none goes over a new connection unchecked; what
            it raises is raised. None: this asks whatever the stream may have lost.
    """

    _known: tuple[int, ...] = ()
    """Codes of errors that are answers, as where a stream that is not there counts as empty."""

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
        found = await self.find(request, deadline)
        if found is None:
            return None
        time = wire.time_of(found.hdrs, found.time)
        return Stored(found.subject, found.seq, time, found.data)

    async def find(
        self, request: Mapping[str, object], deadline: float | None = None
    ) -> wire.StoredMessage | None:
        """As `message`, with the headers."""

        async def attempt(timeout: float) -> wire.StoredMessage | None:
            answer = wire.MessageAnswer
            return (await self.ask("MSG.GET", answer, request, timeout, wire.NO_MESSAGE)).message

        return await self.retry(attempt, deadline, patience=PATIENCE)

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
        """Return how many messages the leader counts on each subject, unreadable ones included."""
        counts: dict[str, int] = {}

        async def attempt(timeout: float) -> wire.StreamDescription:
            body = {"subjects_filter": matching, "offset": len(counts)}
            return self._led(await self.ask("INFO", wire.StreamDescription, body, timeout))

        while True:
            answer = await self.retry(attempt, deadline)
            counts.update(answer.state.subjects)
            if not answer.state.subjects or len(counts) >= answer.total:
                return counts

    # --- the stream -----------------------------------------------------------------------------

    async def describe(self) -> wire.StreamDescription:
        """Return its settings and state; `error` is set where there is no such stream."""

        async def attempt(timeout: float) -> wire.StreamDescription:
            return await self.ask("INFO", wire.StreamDescription, None, timeout, wire.NO_STREAM)

        return await self.retry(attempt, patience=PATIENCE)

    async def describe_by_leader(self) -> wire.StreamDescription:
        """Return its leader's description; without a stream or a leader, raise LogUnavailable.

        After some seconds without a leader any replica answers for itself (nats-server,
        `jsStreamInfoRequest`), and may not know yet what was acked: nothing to decide on.
        """
        return self._led(await self.describe())

    async def create(
        self, config: Mapping[str, object], deadline: float | None = None
    ) -> wire.StreamDescription:
        """Make the stream; `error` is set where it is there with other settings.

        Raises:
            ConfigurationError: the server refused it.
        """

        async def attempt(timeout: float) -> wire.StreamDescription:
            # Creating is idempotent: if two processes make the stream at once, both succeed.
            verb, answer = f"STREAM.CREATE.{self.name}", wire.StreamDescription
            made = await ask(self.connection, verb, answer, config, timeout=timeout)
            if made.error is None or made.error.err_code == wire.STREAM_EXISTS:
                return made
            if made.error.code == wire.NO_LEADER:
                raise LogUnavailable(f"{self.name}: {made.error.description}")
            raise ConfigurationError(
                f"stream {self.name} with {config['num_replicas']} replica(s) was refused: "
                f"{made.error.description} ({made.error.err_code}); "
                "foldlog.connect(replicas=...) chooses their number"
            )

        return await self.retry(attempt, deadline, patience=PATIENCE)

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
        await self.purge_once({"filter": matching, **bound})

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
        replies = await self.connection.request_all(requests, timeout=timeout)
        for seq, reply in zip(seqs, replies, strict=True):
            error = _answer_decoder.decode(reply.data).error
            if error is None or await self.message({"seq": seq}) is None:  # others were faster
                continue
            if (await self.describe()).config.get("deny_delete"):
                raise ConfigurationError(
                    f"stream {self.name} denies deletes, so nothing can be erased in it; the "
                    "server does not let that be changed: copy what is to stay to a new namespace"
                )
            raise LogUnavailable(f"erasing in {self.name}: {error.description}")

    async def purge_once(self, body: Mapping[str, object], *, timeout: float | None = None) -> None:
        """Ask once for a purge. A body without a filter purges all subjects."""
        await self.ask("PURGE", wire.Answer, body, timeout or self.timeout)

    async def confirm_leader(self, nowhere: str) -> None:
        """Return when a majority has confirmed the leader; `nowhere` is an empty subject of it.

        Purging that changes nothing, but is an entry in the replicas' log like any other: the
        answer comes when a majority has it and the leader has applied all that came before.
        """
        assert nowhere, "a purge without a filter would empty the stream"

        async def attempt(timeout: float) -> None:
            await self.purge_once({"filter": nowhere}, timeout=timeout)

        try:
            await self.retry(attempt, patience=PATIENCE)
        except LogUnavailable as error:
            raise LogTimeout(f"a majority of {self.name}'s replicas", self.timeout) from error

    # --- questions ------------------------------------------------------------------------------

    async def retry(
        self,
        attempt: Callable[[float], Awaitable[T]],
        deadline: float | None = None,
        *,
        patience: float = math.inf,
    ) -> T:
        """Return what `attempt` returns; call it again after each LogUnavailable until `deadline`.

        Args:
            attempt: asks something that may be repeated, in so many seconds.
            patience: the seconds that the first attempt may take; doubled where no reply came.

        Raises:
            LogTimeout, LogUnavailable: the last attempt's, or there is no connection. An attempt
                that got no reply does not hide what one before it was answered.
            StoreClosed: this end has closed it.
        """
        asking = self.asking(deadline, patience)
        while True:
            if self._check is not None:
                await self._check()
            try:
                return await attempt(asking.timeout)
            except LogUnavailable as error:
                await asking.again(error)

    def asking(self, deadline: float | None = None, patience: float = math.inf) -> Asking:
        """Return the time that a question has: until `deadline`, or `timeout` seconds."""
        if deadline is None:
            deadline = time.monotonic() + self.timeout
        return Asking(self.connection, deadline, patience)

    async def ask(self, verb: str, answer: type[A], body: object, timeout: float, *known: int) -> A:
        """Ask once; raise LogUnavailable for an error whose code is not `known`."""
        found = await ask(
            self.connection, f"STREAM.{verb}.{self.name}", answer, body, timeout=timeout
        )
        if (error := found.error) is None or error.err_code in (*self._known, *known):
            return found
        raise LogUnavailable(f"{self.name}: {error.description}")

    def _led(self, found: wire.StreamDescription) -> wire.StreamDescription:
        """Return what a leader has said; raise LogUnavailable if it was none."""
        if found.error is not None and found.error.err_code not in self._known:
            raise LogUnavailable(f"{self.name}: {found.error.description}")
        if found.is_leaderless:
            raise LogUnavailable(f"{self.name} has no leader, so nobody knows what it holds")
        return found


# --- the streams of a namespace -----------------------------------------------------------------


async def api_level(connection: Connection, *, timeout: float) -> int:
    """Return the server's JetStream API level.

    Raises:
        UnsupportedServer: JetStream is off, for the server or for this account.
        LogUnavailable: nobody answered, or nobody leads, as in a cluster without a majority.
    """
    try:
        answer = await ask(connection, "INFO", wire.AccountAnswer, timeout=timeout)
    except LogUnavailable as error:
        if isinstance(error, ReplyLost) and not connection.forbids("$JS.API.INFO"):
            raise
        raise UnsupportedServer(
            f"{connection.url} does not answer for JetStream ({error}): start it with -js, or "
            "enable JetStream for this account"
        ) from error
    if answer.error is not None:
        is_passing = answer.error.err_code == wire.NO_CLUSTER_LEADER
        refusal = LogUnavailable if is_passing else UnsupportedServer
        raise refusal(f"{connection.url}: {answer.error.description}")
    return answer.api.level


async def open_streams(
    connection: Connection,
    name: str,
    shards: int,
    *,
    create: bool,
    replicas: int | None,
    timeout: float,
) -> tuple[Namespace, list[wire.StreamDescription]]:
    """Make or check the streams of namespace `name`; return it and each stream's description.

    `shards` counts when the namespace is made; later 1 means "as it is". It is made if `create`.

    Raises:
        ConfigurationError: the namespace is not there and not to be made; or it exists with other
            shards, or its streams with settings on which the log cannot rely.
    """
    first = Namespace(name).stream(0)
    found = await StreamClient(connection, first, timeout=timeout).describe()
    if found.error is None:
        existing = int(found.config.get("metadata", {}).get(_SHARDS, "0"))
        if not existing:
            raise ConfigurationError(f"stream {first} exists and is not foldlog's")
        if shards not in (1, existing):
            raise ConfigurationError(
                f"namespace {name!r} was made with {existing} shard(s) and cannot have {shards}: "
                "leave out shards="
            )
        shards = existing
    elif not create:
        raise ConfigurationError(
            f"there is no namespace {name!r} at {connection.url}: no store was ever opened on it, "
            "and create=False makes none"
        )
    if replicas is None:
        replicas = 3 if connection.server.get("cluster") else 1
    namespace = Namespace(name, shards)
    return namespace, [
        await _open(connection, _config(namespace, shard, replicas), timeout)
        for shard in range(shards)
    ]


async def _open(
    connection: Connection, config: dict[str, Any], timeout: float
) -> wire.StreamDescription:
    client = StreamClient(connection, config["name"], timeout=timeout)
    found = await client.describe()
    if found.error is not None:
        found = await client.create(config)
    metadata = found.config.get("metadata", {})
    written = metadata.get(_FORMAT, "")
    if written not in ("", FORMAT):
        raise ConfigurationError(
            f"the log in {client.name} has format {written}, and this version writes {FORMAT}: "
            "`foldlog backup` with the version that wrote it, and `foldlog restore` with this one "
            "bring it into a new namespace or data directory"
        )
    wrong = [name for name in _RELIED_ON if found.config.get(name) != config[name]]
    wrong += [k for k, v in config["metadata"].items() if metadata.get(k) != v]
    if wrong:
        raise ConfigurationError(
            f"stream {client.name} has other settings than foldlog relies on: {', '.join(wrong)}"
        )
    return found


def _config(namespace: Namespace, shard: int, replicas: int) -> dict[str, Any]:
    # Rollups, message TTLs and schedules stay off: each can lose an acked envelope. Deleting
    # and purging stay allowed: the account's rights say who may (decision 19).
    subjects = namespace.wildcard(shard)
    return {
        "name": namespace.stream(shard),
        "subjects": [subjects],
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "num_replicas": replicas,
        "allow_direct": True,
        "allow_atomic": True,
        "duplicate_window": int(DUPLICATE_SECONDS * 1e9),
        "republish": {"src": subjects, "dest": live(subjects)},
        "metadata": {_SHARDS: str(namespace.shards), _FORMAT: FORMAT},
    }
