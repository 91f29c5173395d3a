"""What a store has before its log is reached: the same ports, which answer LogUnavailable."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any, NoReturn, cast

import msgspec

from foldlog.errors import FoldlogError, LogUnavailable
from foldlog.log.blobs import Blobs
from foldlog.log.port import Append, Log, OnRecord, Record, ServerInfo, Unfollow
from foldlog.log.relay import Relay
from foldlog.log.snapshots import MAX_BYTES, SnapshotStore
from foldlog.subjects import Namespace, Subject


class Nothing:
    """Stands where there is nothing yet: whatever it is asked for is LogUnavailable.

    `reason`: why. `namespace`: of how many shards it really is, only the log knows.
    """

    epoch = -2  # grows when there is something, and is none that a view may have seen
    max_bytes = MAX_BYTES

    def __init__(self, reason: FoldlogError, namespace: Namespace) -> None:
        self.reason = reason
        self.namespace = namespace

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise LogUnavailable(str(self.reason)) from self.reason


class AbsentLog(Relay):
    """The log that is not reached; from `reached` on, that one.

    A subject that was made before is told by its keys: it may be on another shard than it was
    thought to be.
    """

    def __init__(self, nothing: Nothing) -> None:
        super().__init__(cast(Log, nothing))
        self._nothing = nothing
        self._notify: list[Callable[[], None]] = []
        self._moved = False
        self._owned = False

    def reached(self, log: Log, *, owned: bool) -> None:
        """Be that log from now on. `owned`: close it when this is closed."""
        self._moved = log.namespace.shards != self._nothing.namespace.shards
        self._owned = owned
        self.below = log
        for notify in self._notify:
            log.on_epoch(notify)
            notify()

    def lost(self) -> None:
        """Be no log again."""
        self.below = cast(Log, self._nothing)
        self._owned = self._moved = False

    def now(self, subject: Subject) -> Subject:
        """The subject as the log has it that was reached."""
        if not self._moved or not subject.keys:
            return subject
        return self.namespace.subject(subject.family, *subject.keys)

    def known(self, shard: int) -> int:
        """See the port."""
        return 0 if self.below is self._nothing else self.below.known(shard)

    def append(
        self, appends: Sequence[Append], *, atomic: bool = False
    ) -> Coroutine[Any, Any, list[int]]:
        """See the port."""
        if self._moved:
            appends = [
                msgspec.structs.replace(append, subject=self.now(append.subject))
                for append in appends
            ]
        return self.below.append(appends, atomic=atomic)

    def read(
        self, subject: Subject, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        """See the port."""
        return self.below.read(self.now(subject), after=after, strong=strong)

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        """See the port."""
        return await self.below.last(self.now(subject), strong=strong, upto=upto)

    async def lasts(self, subjects: Sequence[Subject]) -> dict[Subject, Record]:
        """See the port."""
        asked = {self.now(subject): subject for subject in subjects}
        found = await self.below.lasts(list(asked))
        return {asked[subject]: record for subject, record in found.items()}

    async def follow(self, subject: Subject, on_record: OnRecord) -> Unfollow:
        """See the port."""
        return await self.below.follow(self.now(subject), on_record)

    async def purge(self, subject: Subject, *, before: int) -> None:
        """See the port."""
        await self.below.purge(self.now(subject), before=before)

    async def server(self) -> ServerInfo:
        """See the port. Raises what keeps the log from being reached."""
        if self.below is self._nothing:
            # Anew each time: it would keep whoever has asked before.
            raise self._nothing.reason.with_traceback(None)
        return await self.below.server()

    def on_epoch(self, notify: Callable[[], None]) -> None:
        """See the port."""
        self._notify.append(notify)
        if self.below is not self._nothing:
            self.below.on_epoch(notify)

    async def close(self) -> None:
        """Close the log that was reached, if it is owned."""
        if self._owned:
            await self.below.close()


class AbsentBlobs:
    """The blobs of a log that is not reached; from `reached` on, those."""

    def __init__(self, nothing: Nothing) -> None:
        self._below = cast(Blobs, nothing)

    def reached(self, blobs: Blobs) -> None:
        """Be those from now on."""
        self._below = blobs

    async def put(self, name: str, data: bytes, *, sha256: str, ttl: int | None) -> None:
        """See the port."""
        await self._below.put(name, data, sha256=sha256, ttl=ttl)

    async def get(self, name: str) -> bytes | None:
        """See the port."""
        return await self._below.get(name)

    async def delete(self, name: str) -> None:
        """See the port."""
        await self._below.delete(name)


class AbsentSnapshots:
    """The snapshots of a log that is not reached; from `reached` on, those."""

    def __init__(self, nothing: Nothing, log: AbsentLog) -> None:
        self._below = cast(SnapshotStore, nothing)
        self._log = log

    def reached(self, snapshots: SnapshotStore) -> None:
        """Be those from now on."""
        self._below = snapshots

    @property
    def max_bytes(self) -> int:
        """See the port."""
        return self._below.max_bytes

    async def identity(self, subject: Subject) -> str:
        """See the port."""
        return await self._below.identity(self._log.now(subject))

    async def get(
        self, subject: Subject, numbers: Sequence[int], edition: str = ""
    ) -> list[bytes | None]:
        """See the port."""
        return await self._below.get(self._log.now(subject), numbers, edition)

    async def holds(self, subject: Subject) -> bool:
        """See the port."""
        return await self._below.holds(self._log.now(subject))

    async def put(self, subject: Subject, number: int, data: bytes, edition: str = "") -> None:
        """See the port."""
        await self._below.put(self._log.now(subject), number, data, edition)

    async def purge(self, subject: Subject) -> None:
        """See the port."""
        await self._below.purge(self._log.now(subject))

    async def purge_all(self, family: str | None = None) -> None:
        """See the port."""
        await self._below.purge_all(family)

    async def names(self, family: str, edition: str = "") -> set[str]:
        """See the port."""
        return await self._below.names(family, edition)
