"""The log on JetStream: one stream a shard."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from nats.aio.msg import Msg

from foldlog.errors import (
    AppendFailed,
    AppendUnknown,
    LogCorrupt,
    LogRewound,
    LogUnavailable,
)
from foldlog.log.blobs import Blobs
from foldlog.log.incarnation import Loss
from foldlog.log.jetstream import scanner, streams, wire
from foldlog.log.jetstream.appender import Appender, OnGroup
from foldlog.log.jetstream.connection import Connection, Revive
from foldlog.log.jetstream.gate import Gate, StreamMarks
from foldlog.log.jetstream.publisher import BATCH_FROM, BATCH_FROM_IN_MEMORY
from foldlog.log.jetstream.reader import Reader
from foldlog.log.jetstream.side import SideStream
from foldlog.log.jetstream.stream import StreamClient
from foldlog.log.packing import sizes_of
from foldlog.log.port import (
    Append,
    LogInfo,
    OnRecord,
    Record,
    Stored,
    StreamInfo,
    Unfollow,
)
from foldlog.log.snapshots import SnapshotStore
from foldlog.subjects import Branch, Namespace, Subject, checked_filter, live, snapshot

T = TypeVar("T")

Stage = Callable[[str], None]
"""Sees to it that the server stages the batches of a stream where that is cheap."""

_AT_ONCE: Final = 64
"""Hashed subjects looked up side by side."""


class _Shard(NamedTuple):
    """What belongs to one shard. `reader` waits for the gate; `stream` asks whatever is lost."""

    everything: str
    gate: Gate
    appender: Appender
    reader: Reader
    stream: StreamClient


class JetStreamLog:
    """A namespace's log on a server or a cluster. Made by `open`, ended by `close`.

    `blobs` and `snapshots` are stored next to it, and end with it.
    """

    def __init__(
        self,
        connection: Connection,
        namespace: Namespace,
        *,
        replicas: int,
        timeout: float,
        created: Sequence[str] = (),
        stage: Stage | None = None,
    ) -> None:
        self.namespace = namespace
        self.connection = connection
        self.timeout = timeout
        self.replicas = replicas
        self._stage = stage
        everything = namespace.wildcard(0).removesuffix("0.>") + ">"
        self.side = self._side(namespace.snapshots(), snapshot(everything, "*"))
        self.snapshots = SnapshotStore(self.side, namespace, self.identity)
        chunks = self._side(
            namespace.blobs(), namespace.blob("*", "*"), discard="new", allow_msg_ttl=True
        )
        self.blobs = Blobs(chunks, namespace)
        self._shards = [
            self._shard(shard, created[shard] if created else None)
            for shard in range(namespace.shards)
        ]
        if stage is not None:
            self._stage_all()
            connection.on_epoch(self._stage_all)

    def _side(self, name: str, subjects: str, **settings: object) -> SideStream:
        return SideStream(
            self.connection,
            name,
            subjects,
            replicas=self.replicas,
            timeout=self.timeout,
            **settings,
        )

    def _shard(self, shard: int, created: str | None) -> _Shard:
        connection, timeout = self.connection, self.timeout
        name = self.namespace.stream(shard)
        gate = Gate(StreamMarks(self.side, self.namespace, shard), created)
        return _Shard(
            self.namespace.wildcard(shard),
            gate,
            Appender(
                connection,
                name,
                gate,
                timeout=timeout,
                batch_from=BATCH_FROM if self._stage is None else BATCH_FROM_IN_MEMORY,
                on_incomplete=self._stage_all,
            ),
            Reader(connection, name, gate, replicas=self.replicas, timeout=timeout),
            StreamClient(connection, name, timeout=timeout),
        )

    @classmethod
    async def open(
        cls,
        url: str,
        namespace: str,
        *,
        shards: int = 1,
        replicas: int | None = None,
        timeout: float = 5.0,
        options: dict[str, Any] | None = None,
        revive: Revive | None = None,
        stage: Stage | None = None,
    ) -> JetStreamLog:
        """Connect, and make or check the namespace's streams.

        `revive`: see `Connection`. `stage` is called with the name of each stream when the log
        opens, and whenever its server may have forgotten where to stage its batches.

        Raises:
            LogUnavailable, UnsupportedServer, ConfigurationError: as the message says.
        """
        Namespace(namespace)  # a bad name is refused before anything is opened
        connection = await Connection.open(
            url, timeout=timeout, options=options or {}, revive=revive
        )
        try:
            if not connection.server.get("jetstream"):
                await streams.api_level(connection, timeout=timeout)
            made, found = await streams.open_streams(
                connection, namespace, shards, replicas=replicas, timeout=timeout
            )
            log = cls(
                connection,
                made,
                replicas=found[-1].config.num_replicas,
                timeout=timeout,
                created=[each.created for each in found],
                stage=stage,
            )
            # Before anything is appended, which might hide that something is lost.
            await _all(shard.gate.open() for shard in log._shards)
        except BaseException:
            await connection.close()
            raise
        return log

    @property
    def epoch(self) -> int:
        return self.connection.epoch

    @property
    def pending_bytes(self) -> int:
        """What is queued and in flight to all shards now."""
        return sum(shard.appender.pending_bytes for shard in self._shards)

    def observe(self, on_group: OnGroup) -> None:
        """Have `on_group` hear of each group of records that was published."""
        for shard in self._shards:
            shard.appender.on_group = on_group

    def known(self, shard: int) -> int:
        return self._shards[shard].gate.known

    def identity(self, shard: int) -> str:
        """Return what tells this incarnation of a shard from any other that had its name."""
        return self._shards[shard].gate.identity

    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[Any, Any, list[int]]:
        if len(self._shards) == 1:
            return self._shards[0].appender.append(appends, atomic=atomic)
        return self._append_sharded(appends, atomic=atomic)

    async def _append_sharded(self, appends: Sequence[Append], *, atomic: bool) -> list[int]:
        shards = {append.subject.shard for append in appends}
        if len(shards) == 1 or atomic:
            return await self._shards[shards.pop()].appender.append(appends, atomic=atomic)
        sizes_of(appends, self.connection.max_payload)  # before any shard has stored its part
        by_shard = {s: [a for a in appends if a.subject.shard == s] for s in shards}
        results = await asyncio.gather(
            *(
                self._shards[shard].appender.append(part, atomic=False)
                for shard, part in by_shard.items()
            ),
            return_exceptions=True,
        )
        seqs = dict(zip(by_shard, map(iter, _all_stored(appends, results)), strict=True))
        return [next(seqs[append.subject.shard]) for append in appends]

    def read(
        self, subject: Subject, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        return self._shards[subject.shard].reader.read(subject, after, strong=strong)

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        return await self._shards[subject.shard].reader.last(subject, strong=strong, upto=upto)

    def lasts(self, branch: Branch) -> AsyncGenerator[list[Stored]]:
        return scanner.newest(self._shards[branch.shard].stream, branch.matching)

    def scan(self, shard: int, *, after: int = 0) -> AsyncGenerator[list[Stored]]:
        return scanner.scan(self._shards[shard].stream, self._shards[shard].everything, after)

    async def subjects(
        self, family: str | None = None, shard: int | None = None
    ) -> dict[Subject, int]:
        found: dict[Subject, int] = {}
        for each in range(self.namespace.shards) if shard is None else (shard,):
            matching = self.namespace.wildcard(each, family)
            counts = await self._shards[each].stream.subjects(matching)
            subjects = {name: self.namespace.parse(name) for name in counts}
            unknown = [name for name, subject in subjects.items() if subject is None]
            for start in range(0, len(unknown), _AT_ONCE):
                some = unknown[start : start + _AT_ONCE]
                asked = (find_keys(self._shards[each].stream, each, name) for name in some)
                subjects.update(zip(some, await _all(asked), strict=True))
            found.update((s, counts[name]) for name, s in subjects.items() if s is not None)
        return found

    async def stored(self, shard: int, seq: int) -> Stored | None:
        return await self._shards[shard].stream.message({"seq": seq}) if seq > 0 else None

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        return await self._shards[shard].stream.sequence_at(self._shards[shard].everything, time)

    async def heads(self) -> list[int]:
        found = await _all(shard.stream.describe_by_leader() for shard in self._shards)
        return [each.state.last_seq for each in found]

    async def barrier(self, shard: int) -> None:
        if self.replicas > 1:
            await self._shards[shard].stream.confirm_leader(self.namespace.barrier(shard))

    async def follow(self, subject: Subject, on_record: OnRecord) -> Unfollow:
        gate = self._shards[subject.shard].gate

        def on_message(msg: Msg) -> None:
            headers = msg.headers or {}
            try:
                seq, previous = int(headers["Nats-Sequence"]), int(headers["Nats-Last-Sequence"])
                stored = Stored(subject.name, seq, headers["Nats-Time-Stamp"], msg.data)
                record = stored.record(previous)
            except (LogCorrupt, KeyError, ValueError):
                # Not a record as the server republishes it, so no hint. A read of the log finds
                # what is there, or raises.
                self.connection.miss()
                return
            gate.seen(record.seq)
            on_record(record)

        subscription = await self.connection.subscribe(live(subject.name), on_message)

        async def unfollow() -> None:
            await self.connection.unsubscribe(subscription)

        return unfollow

    async def purge(
        self, which: Subject | Branch | int, *, before: int, overwrite: bool = True
    ) -> None:
        matching = ""
        if not isinstance(which, int):
            matching = checked_filter(which.matching if isinstance(which, Branch) else which.name)
        if before <= 1:
            return  # sequences begin at 1, and to the server 0 means all of them
        shard = self._shards[which if isinstance(which, int) else which.shard]
        announce = shard.gate.announce_purge
        await announce()
        if not matching or not overwrite:
            # Without a filter the server drops whole blocks instead of looking at every message.
            bound: dict[str, object] = {"seq": before}
            await shard.stream.purge({"filter": matching, **bound} if matching else bound)
            return
        # It may take longer than one announcement covers, so each request sees to the next one.
        stream = StreamClient(
            self.connection, shard.stream.name, timeout=self.timeout, check=announce
        )
        await stream.erase(matching, before=before)

    async def check(self) -> list[Loss]:
        found = await _all(shard.gate.check() for shard in self._shards)
        return [loss for losses in found for loss in losses]

    async def accept(self) -> None:
        await _all(shard.gate.accept() for shard in self._shards)

    async def info(self) -> LogInfo:
        start = time.perf_counter()
        level = await streams.api_level(self.connection, timeout=self.timeout)
        rtt = time.perf_counter() - start
        shards = range(self.namespace.shards)
        return LogInfo(
            url=self.connection.url,
            version=str(self.connection.server.get("version", "")),
            api_level=level,
            max_payload=self.connection.max_payload,
            rtt=rtt,
            streams=tuple(await _all(map(self._describe, shards))),
        )

    def on_epoch(self, notify: Callable[[], None]) -> None:
        self.connection.on_epoch(notify)

    async def close(self) -> None:
        """Let what is in flight end, then disconnect. Idempotent."""
        try:
            for shard in self._shards:
                await shard.appender.close()
            await _all(shard.gate.close() for shard in self._shards)
        finally:
            await self.connection.close()

    def _stage_all(self) -> None:
        if self._stage is not None:
            for shard in self._shards:
                self._stage(shard.stream.name)

    async def _describe(self, shard: int) -> StreamInfo:
        stream = self._shards[shard].stream
        answer = await stream.describe()
        if answer.error is not None:
            raise LogUnavailable(f"{stream.name}: {answer.error.description}")
        cluster = answer.cluster or wire.Cluster()
        return StreamInfo(
            name=stream.name,
            shard=shard,
            messages=answer.state.messages,
            bytes=answer.state.bytes,
            subjects=answer.state.num_subjects,
            first_seq=answer.state.first_seq,
            last_seq=answer.state.last_seq,
            replicas=answer.config.num_replicas,
            leader=cluster.leader or None,
            peers_lag={peer.name: peer.lag for peer in cluster.replicas},
        )


async def find_keys(stream: StreamClient, shard: int, name: str) -> Subject | None:
    """Return the subject of a hashed name; None if its records were purged meanwhile."""
    for request in ({"last_by_subj": name}, {"seq": 1, "next_by_subj": name}):
        if (stored := await stream.message(request)) is not None:
            with suppress(LogCorrupt):  # another record has its keys, too
                if keys := stored.record().envelopes[-1].keys:
                    return Subject(name, shard, tuple(keys))
    if await stream.subjects(name):
        raise LogCorrupt(stream.name, 0, f"{name}: no record that has its keys can be read")
    return None


def _all_stored(
    appends: Sequence[Append], results: Sequence[list[int] | BaseException]
) -> list[list[int]]:
    """The results of the shards of one append, or the error that tells how it ended as a whole."""
    stored = [result for result in results if not isinstance(result, BaseException)]
    errors = [result for result in results if isinstance(result, BaseException)]
    if not errors:
        return stored
    for error in errors:
        if not isinstance(error, AppendFailed | AppendUnknown | LogRewound | LogUnavailable):
            raise error
    if not stored and not any(isinstance(error, AppendUnknown) for error in errors):
        raise errors[0]
    ids = [draft.id for append in appends for draft in append.drafts]
    raise AppendUnknown(ids, f"{len(errors)} of {len(results)} shards: {errors[0]}") from errors[0]


async def _all(asked: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return what all of them return, in order; raise the first error when all have ended."""
    found = await asyncio.gather(*asked, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return [each for each in found if not isinstance(each, BaseException)]
