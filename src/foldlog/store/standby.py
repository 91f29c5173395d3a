"""A store whose log has not been reached yet: what it saves waits in the spool.

For an owner who cannot wait for the log, and whose degrading store must keep what it is given from
the first call on.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator, Callable, Sequence

from foldlog.errors import FoldlogError, LogUnavailable
from foldlog.log.port import (
    Append,
    Log,
    OnRecord,
    Record,
    ServerInfo,
    Stored,
    StreamInfo,
    Unfollow,
)
from foldlog.store.spool import Outbox, Place, Spool
from foldlog.store.store import Store, StoreOptions
from foldlog.subjects import Namespace, Subject


class Standby:
    """`store` spools because of `reason`, until `hand_over`. Lives until its store is closed."""

    def __init__(
        self,
        reason: FoldlogError,
        place: Place,
        limit: int,
        namespace: Namespace,
        options: StoreOptions,
    ) -> None:
        self._log = _AbsentLog(namespace, reason)
        self._outbox = Outbox(self._log, Spool(place, limit))
        self.store = Store(self._log, _AbsentBlobs(), options, outbox=self._outbox)

    async def hand_over(self, log: Log) -> None:
        """Append to `log` what waits, and from now on what is still saved here.

        Raises:
            LogUnavailable: it is away again; what waits still waits here, and `log` is let go of.
        """
        self._log.reached(log)
        try:
            await self._outbox.settle()
        except BaseException:
            self._log.lost()
            raise


class _AbsentLog:
    """The log that is not reached; once it is, that one."""

    def __init__(self, namespace: Namespace, reason: FoldlogError) -> None:
        self.namespace = namespace  # of how many shards it really is, the log tells
        self._reason = reason
        self._log: Log | None = None
        self._notify: list[Callable[[], None]] = []

    def reached(self, log: Log) -> None:
        self._log = log
        self.namespace = log.namespace
        for notify in self._notify:
            log.on_epoch(notify)

    def lost(self) -> None:
        self._log = None

    def there(self) -> Log:
        """Raises LogUnavailable while it is not."""
        if self._log is None:
            if isinstance(self._reason, LogUnavailable):
                raise self._reason
            raise LogUnavailable(str(self._reason)) from self._reason
        return self._log

    @property
    def epoch(self) -> int:
        """See the port."""
        return 0 if self._log is None else 1 + self._log.epoch

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        """See the port."""
        return await self.there().append(appends, atomic=atomic)

    async def read(
        self, subject: Subject, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        """See the port."""
        async for page in self.there().read(subject, after=after, strong=strong):
            yield page

    async def scan(self, shard: int, *, after: int = 0) -> AsyncGenerator[list[Stored]]:
        """See the port."""
        async for page in self.there().scan(shard, after=after):
            yield page

    async def counts(self, shard: int) -> dict[str, int]:
        """See the port."""
        return await self.there().counts(shard)

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        """See the port."""
        return await self.there().last(subject, strong=strong, upto=upto)

    async def lasts(self, subjects: Sequence[Subject]) -> dict[Subject, Record]:
        """See the port."""
        return await self.there().lasts(subjects)

    async def stored(self, shard: int, seq: int) -> Stored | None:
        """See the port."""
        return await self.there().stored(shard, seq)

    async def sequence_at(self, shard: int, time: dt.datetime) -> int:
        """See the port."""
        return await self.there().sequence_at(shard, time)

    async def barrier(self, shard: int) -> None:
        """See the port."""
        await self.there().barrier(shard)

    async def follow(self, subject: Subject, on_record: OnRecord) -> Unfollow:
        """See the port."""
        return await self.there().follow(subject, on_record)

    async def purge(self, subject: Subject, *, before: int) -> None:
        """See the port."""
        await self.there().purge(subject, before=before)

    async def truncate(self, shard: int, *, before: int) -> None:
        """See the port."""
        await self.there().truncate(shard, before=before)

    async def prove(self) -> None:
        """See the port."""
        await self.there().prove()

    async def accept(self) -> None:
        """See the port."""
        await self.there().accept()

    async def subjects(self, family: str | None = None) -> list[Subject]:
        """See the port."""
        return await self.there().subjects(family)

    async def streams(self) -> list[StreamInfo]:
        """See the port."""
        return await self.there().streams()

    async def server(self) -> ServerInfo:
        """See the port. Raises what kept the log from being reached."""
        if self._log is None:
            raise self._reason
        return await self._log.server()

    def on_epoch(self, notify: Callable[[], None]) -> None:
        """See the port."""
        self._notify.append(notify)

    async def close(self) -> None:
        """Does nothing: the log that was reached is its owner's to close."""


class _AbsentBlobs:
    """No blobs: bytes are for the store that has the log."""

    async def put(self, name: str, data: bytes, *, sha256: str, ttl: int | None) -> None:
        """See the port."""
        raise _unavailable()

    async def get(self, name: str) -> bytes | None:
        """See the port."""
        raise _unavailable()

    async def delete(self, name: str) -> None:
        """See the port."""
        raise _unavailable()


def _unavailable() -> LogUnavailable:
    return LogUnavailable("the bytes of artifacts cannot be reached")
