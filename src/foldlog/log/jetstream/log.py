"""The log on JetStream: one stream a shard."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

from nats.aio.msg import Msg

from foldlog.batches import side_by_side
from foldlog.errors import AppendUnknown, FoldlogError, LogCorrupt, LogUnavailable
from foldlog.log.blobs import Blobs
from foldlog.log.incarnation import Loss
from foldlog.log.jetstream import scanner, wire
from foldlog.log.jetstream.appender import Appender, OnGroup
from foldlog.log.jetstream.asking import wait_for_all
from foldlog.log.jetstream.connection import Connection, ReplyLost, Revive
from foldlog.log.jetstream.gate import Gate, StreamMarks
from foldlog.log.jetstream.publisher import Outcome, stored_at
from foldlog.log.jetstream.reader import Reader, stored_in
from foldlog.log.jetstream.side import SideStream
from foldlog.log.jetstream.stream import StreamClient, api_level, open_streams
from foldlog.log.jetstream.timers import TimerStream
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
from foldlog.log.timers import Timers
from foldlog.subjects import Branch, Namespace, Subject, blob, checked_filter, live, snapshot

T = TypeVar("T")

Stage = Callable[[str], None]
"""Has the server stage the batches of a stream in memory."""


class _Shard(NamedTuple):
    """What belongs to one shard. `reader` waits for the gate; `stream` asks whatever is lost."""

    everything: str
    gate: Gate
    appender: Appender
    reader: Reader
    stream: StreamClient


class JetStreamLog:
    """A namespace's log on a server or a cluster. Made by `open`, ended by `close`.

    `blobs`, `snapshots` and `timers` are stored next to it, and end with it.
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
        self.epoch: int = 0
        self.connection = connection
        connection.on_epoch(self._missed)
        self.timeout = timeout
        self.replicas = replicas
        side = partial(SideStream, connection, replicas=replicas, timeout=timeout)
        everything = namespace.everything()
        self.side: SideStream = side(namespace.stream("snapshots"), snapshot(everything, "*"))
        self.snapshots: SnapshotStore = SnapshotStore(self.side, namespace, self.identity)
        chunks = side(
            namespace.stream("blobs"), blob(everything, "*", "*"), discard="new", allow_msg_ttl=True
        )
        self.blobs: Blobs = Blobs(chunks, namespace)
        self.timers: Timers = TimerStream(connection, namespace, replicas=replicas, timeout=timeout)
        self._shards = list[_Shard]()
        for shard in range(namespace.shards):
            name = namespace.stream(shard)
            stream = StreamClient(connection, name, timeout=timeout)
            gate = Gate(
                StreamMarks(self.side, namespace, shard), created[shard] if created else None
            )
            stage_one = None if stage is None else partial(stage, name)
            if stage_one is not None:
                stage_one()
                connection.on_epoch(stage_one)
            self._shards.append(
                _Shard(
                    namespace.wildcard(shard),
                    gate,
                    Appender(stream, gate, stage_one),
                    Reader(connection, name, gate, replicas=replicas, timeout=timeout),
                    stream,
                )
            )

    @classmethod
    async def open(
        cls,
        url: str,
        namespace: str,
        *,
        shards: int = 1,
        create: bool = True,
        replicas: int | None = None,
        timeout: float = 5.0,
        options: dict[str, Any] | None = None,
        revive: Revive | None = None,
        stage: Stage | None = None,
    ) -> JetStreamLog:
        """Connect, and make or check the namespace's streams; make none unless `create`.

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
                await api_level(connection, timeout=timeout)
            made, found = await open_streams(
                connection, namespace, shards, create=create, replicas=replicas, timeout=timeout
            )
            log = cls(
                connection,
                made,
                replicas=found[-1].replicas,
                timeout=timeout,
                created=[each.created for each in found],
                stage=stage,
            )
            # Before anything is appended, which might hide that something is lost.
            await wait_for_all(shard.gate.open() for shard in log._shards)
        except BaseException:
            await connection.close()
            raise
        return log

    @property
    def pending_bytes(self) -> int:
        """What is queued and in flight to all shards now."""
        return sum(shard.appender.pending_bytes for shard in self._shards)

    def observe(self, on_group: OnGroup) -> None:
        """Call `on_group` after each group of records that was published."""
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
        results = await asyncio.gather(
            *(
                self._shards[append.subject.shard].appender.append([append], atomic=False)
                for append in appends
            ),
            return_exceptions=True,
        )
        outcomes = list[Outcome]()
        for result in results:
            if isinstance(result, list):
                outcomes += result
            elif isinstance(result, AppendUnknown):
                outcomes.append(ReplyLost(result.reason))
            elif isinstance(result, FoldlogError):
                outcomes.append(result)
            else:
                raise result
        return stored_at(appends, [(n, n) for n in range(len(appends))], outcomes)

    async def restore(
        self, shard: int, records: Sequence[tuple[Subject, bytes, str]], *, after: int
    ) -> None:
        await self._shards[shard].appender.restore(records, after=after)

    def read(
        self, subject: Subject | Branch, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        return self._shards[subject.shard].reader.read(subject, after, strong=strong)

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        return await self._shards[subject.shard].reader.last(subject, strong=strong, upto=upto)

    async def are_absent(self, subjects: Sequence[Subject]) -> bool:
        return await self._shards[subjects[0].shard].reader.are_absent(subjects)

    def scan(
        self, shard: int, *, after: int = 0, only: Sequence[str] = ()
    ) -> AsyncGenerator[list[Stored]]:
        return scanner.scan(
            self._shards[shard].stream, self._shards[shard].everything, after, only=only
        )

    async def subjects(
        self, family: str | None = None, shard: int | None = None
    ) -> dict[Subject, int]:
        found: dict[Subject, int] = {}
        for each in range(self.namespace.shards) if shard is None else (shard,):
            matching = self.namespace.wildcard(each, family)
            counts = await self._shards[each].stream.subjects(matching)
            subjects = {name: self.namespace.parse(name) for name in counts}
            unknown = [name for name, subject in subjects.items() if subject is None]
            find = partial(find_keys, self._shards[each].stream, each)
            subjects.update(zip(unknown, await side_by_side(unknown, find), strict=True))
            found.update((s, counts[name]) for name, s in subjects.items() if s is not None)
        return found

    async def stored(self, shard: int, seq: int) -> Stored | None:
        return await self._shards[shard].stream.message({"seq": seq}) if seq > 0 else None

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        return await self._shards[shard].stream.sequence_at(self._shards[shard].everything, time)

    async def heads(self) -> list[int]:
        found = await wait_for_all(shard.stream.describe_by_leader() for shard in self._shards)
        return [each.state.last_seq for each in found]

    async def barrier(self, shard: int) -> None:
        if self.replicas > 1:
            await self._shards[shard].stream.confirm_leader(self.namespace.barrier(shard))

    async def follow(self, subject: Subject | Branch, on_record: OnRecord) -> Unfollow:
        gate = self._shards[subject.shard].gate

        def on_message(msg: Msg) -> None:
            try:
                stored, previous = stored_in(msg)
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
        matching = "" if isinstance(which, int) else checked_filter(which.name)
        if before <= 1:
            return  # sequences begin at 1, and to the server 0 means all of them
        shard = self._shards[which if isinstance(which, int) else which.shard]
        announce = shard.gate.announce_purge
        await announce()
        if not matching or not overwrite:
            # Without a filter the server drops whole blocks instead of looking at every message.
            await shard.stream.purge_once({"filter": matching, "seq": before})
            return
        # It may take longer than one announcement covers, so each request sees to the next one.
        stream = StreamClient(
            self.connection, shard.stream.name, timeout=self.timeout, check=announce
        )
        await stream.erase(matching, before=before)

    async def check(self) -> list[Loss]:
        found = await wait_for_all(shard.gate.check() for shard in self._shards)
        return [loss for losses in found for loss in losses]

    async def accept(self) -> None:
        await wait_for_all(shard.gate.accept() for shard in self._shards)

    async def info(self) -> LogInfo:
        start = time.perf_counter()
        level = await api_level(self.connection, timeout=self.timeout)
        rtt = time.perf_counter() - start
        shards = range(self.namespace.shards)
        return LogInfo(
            url=self.connection.url,
            version=str(self.connection.server.get("version", "")),
            api_level=level,
            max_payload=self.connection.max_payload,
            rtt=rtt,
            streams=tuple(await wait_for_all(map(self._describe, shards))),
        )

    def on_epoch(self, notify: Callable[[], None]) -> None:
        self.connection.on_epoch(notify)

    def _missed(self) -> None:
        self.epoch += 1

    async def close(self) -> None:
        """Let what is in flight end, for `timeout` seconds, then disconnect. Idempotent."""
        try:
            await wait_for_all(map(self._close, self._shards))
        finally:
            await self.connection.close()

    async def _close(self, shard: _Shard) -> None:
        ending = time.monotonic() + self.timeout
        await shard.appender.close()
        await shard.gate.close(ending - time.monotonic())

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
            replicas=answer.replicas,
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
