"""The log on JetStream: the port's first backend, one stream a shard."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

from nats.aio.msg import Msg

from foldlog.errors import (
    AppendFailed,
    AppendUnknown,
    LogCorrupt,
    LogRewound,
    LogUnavailable,
)
from foldlog.log.incarnation import Loss
from foldlog.log.jetstream import streams, wire
from foldlog.log.jetstream.appender import Appender
from foldlog.log.jetstream.connection import Connection, Revive
from foldlog.log.jetstream.gate import Gate
from foldlog.log.jetstream.marks import StreamMarks
from foldlog.log.jetstream.publisher import OnGroup
from foldlog.log.jetstream.reader import Reader
from foldlog.log.jetstream.scanner import Scanner
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
from foldlog.subjects import Branch, Namespace, Subject, checked_filter, live, snapshot

T = TypeVar("T")

Stage = Callable[[str], None]
"""Sees to it that the server stages the batches of a stream where that is cheap."""


class JetStreamLog:
    """A namespace's log on a server or a cluster. Made by `open`, ended by `close`."""

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
        shards = range(namespace.shards)
        self.replicas = replicas
        self._stage = stage
        everything = namespace.wildcard(0).removesuffix("0.>") + ">"
        self.side = SideStream(
            connection,
            namespace.snapshots(),
            snapshot(everything, "*"),
            replicas=replicas,
            timeout=timeout,
        )
        self._gates = [
            Gate(StreamMarks(self.side, namespace, shard), created[shard] if created else None)
            for shard in shards
        ]
        self._appenders = [
            Appender(
                connection,
                namespace.stream(shard),
                self._gates[shard],
                timeout=timeout,
                on_incomplete=self._stage_all,
            )
            for shard in shards
        ]
        self._readers = [
            Reader(
                connection,
                namespace.stream(shard),
                self._gates[shard],
                replicas=replicas,
                timeout=timeout,
            )
            for shard in shards
        ]
        self._clients = [
            StreamClient(connection, namespace.stream(shard), timeout=timeout) for shard in shards
        ]
        self._scanners = [
            Scanner(self._clients[shard], namespace.wildcard(shard)) for shard in shards
        ]
        if stage is not None:
            self._stage_all()
            connection.on_epoch(self._stage_all)

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
            await _all(gate.open() for gate in log._gates)
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
        return sum(appender.pending_bytes for appender in self._appenders)

    def observe(self, on_group: OnGroup) -> None:
        """Have `on_group` hear of each group of records that was published."""
        for appender in self._appenders:
            appender.publisher.on_group = on_group

    def known(self, shard: int) -> int:
        return self._gates[shard].known

    def identity(self, shard: int) -> str:
        """Return what tells this incarnation of a shard from any other that had its name."""
        return self._gates[shard].identity

    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[Any, Any, list[int]]:
        if len(self._appenders) == 1:
            return self._appenders[0].append(appends, atomic=atomic)
        return self._append_sharded(appends, atomic=atomic)

    async def _append_sharded(self, appends: Sequence[Append], *, atomic: bool) -> list[int]:
        shards = {append.subject.shard for append in appends}
        if len(shards) == 1 or atomic:
            return await self._appenders[shards.pop()].append(appends, atomic=atomic)
        sizes_of(appends, self.connection.max_payload)  # before any shard has stored its part
        by_shard = {s: [a for a in appends if a.subject.shard == s] for s in shards}
        results = await asyncio.gather(
            *(
                self._appenders[shard].append(part, atomic=False)
                for shard, part in by_shard.items()
            ),
            return_exceptions=True,
        )
        seqs = dict(zip(by_shard, map(iter, _all_stored(appends, results)), strict=True))
        return [next(seqs[append.subject.shard]) for append in appends]

    def read(
        self, subject: Subject, *, after: int = 0, upto: int | None = None, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        return self._readers[subject.shard].read(subject, after, strong=strong, upto=upto)

    def scan(self, shard: int, *, after: int = 0) -> AsyncGenerator[list[Stored]]:
        return self._scanners[shard].scan(after)

    async def counts(self, shard: int) -> dict[str, int]:
        return await self._counts(shard, None)

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        reader = self._readers[subject.shard]
        if upto is not None:
            return await reader.last_upto(subject, upto)
        return await reader.last(subject, strong=strong)

    async def stored(self, shard: int, seq: int) -> Stored | None:
        return await self._scanners[shard].stored(seq)

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        return await self._scanners[shard].sequence_at(time)

    def lasts(self, branch: Branch) -> AsyncGenerator[list[Stored]]:
        return self._scanners[branch.shard].newest(branch.matching)

    async def barrier(self, shard: int) -> None:
        if self.replicas > 1:
            await self._clients[shard].confirm_leader(self.namespace.barrier(shard))

    async def follow(self, subject: Subject, on_record: OnRecord) -> Unfollow:
        reader, gate = self._readers[subject.shard], self._gates[subject.shard]

        def on_message(msg: Msg) -> None:
            headers = msg.headers or {}
            try:
                record = reader.parse(msg, previous=int(headers["Nats-Last-Sequence"]))
            except (LogCorrupt, KeyError, ValueError):
                # Not a record as the server republishes it: a hint that is worth nothing. Reading
                # the log tells what is there, or raises.
                self.connection.miss()
                return
            gate.seen(record.seq)
            on_record(record)

        subscription = await self.connection.subscribe(live(subject.name), on_message)

        async def unfollow() -> None:
            await self.connection.unsubscribe(subscription)

        return unfollow

    async def purge(self, which: Subject | Branch | int, *, before: int) -> None:
        # Without a filter the server drops whole blocks instead of looking at every message.
        shard, matching = which if isinstance(which, int) else which.shard, None
        if isinstance(which, Branch):
            matching = checked_filter(which.matching)
        elif isinstance(which, Subject):
            matching = checked_filter(which.name)
        if before <= 1:
            return  # sequences begin at 1, and to the server 0 means all of them
        await self._gates[shard].keeper.announce_purge()
        body = {"seq": before} if matching is None else {"seq": before, "filter": matching}
        client = self._clients[shard]
        answer = await client.purge(body)
        if answer.error is not None:
            raise LogUnavailable(f"purging {client.name}: {answer.error.description}")

    async def check(self) -> list[Loss]:
        found = await _all(gate.check() for gate in self._gates)
        return [loss for losses in found for loss in losses]

    async def accept(self) -> None:
        await _all(gate.accept() for gate in self._gates)

    async def subjects(self, family: str | None = None) -> list[Subject]:
        found: list[Subject] = []
        for shard in range(self.namespace.shards):
            found += [
                self.namespace.parse(name) or await self._unhash(name, shard)
                for name in await self._counts(shard, family)
            ]
        return found

    async def heads(self) -> list[int]:
        found = await _all(client.describe_by_leader() for client in self._clients)
        return [each.state.last_seq for each in found]

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
            for appender in self._appenders:
                await appender.close()
            await _all(gate.close() for gate in self._gates)
        finally:
            await self.connection.close()

    def _stage_all(self) -> None:
        if self._stage is not None:
            for shard in range(self.namespace.shards):
                self._stage(self.namespace.stream(shard))

    async def _counts(self, shard: int, family: str | None) -> dict[str, int]:
        return await self._clients[shard].subjects(self.namespace.wildcard(shard, family))

    async def _unhash(self, name: str, shard: int) -> Subject:
        record = await self._readers[shard].last(Subject(name, shard, ()), strong=True)
        keys = record.envelopes[-1].keys if record else None
        if not keys:
            raise LogCorrupt(self.namespace.stream(shard), record.seq if record else 0, "no keys")
        return Subject(name, shard, tuple(keys))

    async def _describe(self, shard: int) -> StreamInfo:
        stream = self.namespace.stream(shard)
        answer = await self._clients[shard].describe()
        if answer.error is not None:
            raise LogUnavailable(f"{stream}: {answer.error.description}")
        cluster = answer.cluster or wire.Cluster()
        return StreamInfo(
            name=stream,
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
