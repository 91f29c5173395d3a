"""Every capability over one log, joined. Reads like a table of contents.

A new capability is a kind in `projections/` and a class in a module of this package. The `Store`
that programs hold adds the facades: `foldlog.opening.store`.
"""

from __future__ import annotations

import asyncio
from typing import Self

from foldlog.errors import ConfigurationError
from foldlog.log.archive import Archived, Archiver, Archiving
from foldlog.log.moments import head
from foldlog.log.port import Log
from foldlog.position import LogPosition
from foldlog.store.artifacts import Artifacts
from foldlog.store.belonging import Belongings
from foldlog.store.bindings import Bindings
from foldlog.store.core import Backend, Core, core_of
from foldlog.store.erasure import Erasure
from foldlog.store.events import Events
from foldlog.store.feedback import Feedbacks
from foldlog.store.forks import Forks
from foldlog.store.health import HealthCheck
from foldlog.store.memory import Memory
from foldlog.store.messages import Messages
from foldlog.store.operation import operation
from foldlog.store.options import Options
from foldlog.store.pauses import Pauses
from foldlog.store.rebuild import (
    OnProgress,
    RebuildReport,
    VerifyReport,
    rebuild,
    verify,
)
from foldlog.store.records import Records
from foldlog.store.steering import Steering
from foldlog.store.tasks import Tasks
from foldlog.store.trajectories import Trajectories
from foldlog.store.updates import Updates
from foldlog.store.waiting import Inbox


class BaseStore(
    Events,
    Bindings,
    Pauses,
    Memory,
    Messages,
    Tasks,
    Updates,
    Steering,
    Trajectories,
    Feedbacks,
    Forks,
    Erasure,
    Inbox,
    Belongings,
    Records,
    HealthCheck,
):
    """What facades and adapters build on. It lives until `close`, which also closes the log."""

    def __init__(self, backend: Backend, options: Options) -> None:
        super().__init__(Core(backend, options))
        self._artifacts = Artifacts(self, options.retention)
        self._core.on_close(backend.close)
        if backend.outbox is not None:
            self._core.on_close(backend.outbox.close)
        self._core.on_close(self._core.hot_views.close)
        complete(self, backend)

    @property
    def log(self) -> Log:
        """The log. `foldlog.memory_store(log=store.log)` shares it, as a second process would."""
        return self._core.log

    @property
    def artifact_store(self) -> Artifacts:
        """The store's artifacts: bytes and large texts, which a model never sees."""
        return self._artifacts

    @operation()
    async def position(self) -> LogPosition:
        """Return where the log ends now. Everything acked to anybody before is at or before it.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return await head(self._core.forked_log)

    @operation()
    async def barrier(self) -> None:
        """Return when a majority of the servers has confirmed the leader of each shard.

        A strong read that begins afterwards sees all that was acked before this call, even if a
        network partition has deposed a leader that still believes it leads. With one replica every
        strong read does.

        Raises:
            LogUnavailable, LogTimeout: a leader is not confirmed by a majority.
            StoreClosed: the store is closed.
        """
        log = self._core.forked_log
        await asyncio.gather(*(log.barrier(shard) for shard in range(log.namespace.shards)))

    @operation(writes=True)
    async def rebuild(
        self, projection: str | None = None, *, on_progress: OnProgress | None = None
    ) -> RebuildReport:
        """Fold every view again from the log's first record, and answer reads from the result.

        Reads go on meanwhile. Each new fold is compared with what reads were answered from, and
        then replaces it, whatever the comparison gave: the log is the truth. It also accepts a log
        that lost records.

        Args:
            projection: only the kind of that name. None: all kinds.
            on_progress: called with a `RebuildProgress` now and then.

        Returns:
            What was folded, and which views differed.

        Raises:
            NotFound: there is no such kind.
            LogUnavailable: the log does not answer. Views in memory stay.
            LogCorrupt: some of the log cannot be read. Views that need it stay as they are; all
                others are rebuilt.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        return await rebuild(self._core, projection, on_progress)

    @operation()
    async def verify(
        self, projection: str | None = None, *, on_progress: OnProgress | None = None
    ) -> VerifyReport:
        """Fold every view anew and compare it with what reads are answered from.

        Nothing is changed. It looks through the log as well.

        Args:
            projection: only the kind of that name. None: all kinds.
            on_progress: called with a `RebuildProgress` now and then.

        Returns:
            What was found; `is_good` says whether all is well.

        Raises:
            NotFound: there is no such kind.
            LogUnavailable: the log does not answer.
            StoreClosed: the store is closed.
        """
        return await verify(self._core, projection, on_progress)

    @operation(writes=True)
    async def archive(self, *, everything: bool = False, forget: str | None = None) -> Archived:
        """Move the oldest records from the log to its archive: what exceeds `archive_limits`.

        Every store that was opened with `archive=` does so by itself; while one works on a shard,
        the others leave it. Readers notice nothing.

        Args:
            everything: move all records, whatever the limits say.
            forget: move nothing; give up this file of the archive, as an error or `verify` names
                it, which is lost or damaged. Reads go on without its records, `verify` lists it as
                an accepted loss, and what is left of it is removed. If you have a copy of it, put
                it back instead.

        Returns:
            How many records were moved, their bytes, how many segments were merged, and how many
            shards another archiver held; and the file that was forgotten.

        Raises:
            ConfigurationError: the store was opened without `archive=`, or the log has another one.
            NotFound: the archive names no file `forget`. Misuse: it has that file whole.
            LogUnavailable, LogCorrupt: the log or the archive did not answer, or cannot be read.
                Archiving again is safe.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        if forget is not None:
            return await self._archiver.give_up(forget)
        return await self._archiver.run(everything=everything)

    @property
    def _archiver(self) -> Archiver:
        if self._core.backend.archiver is None:
            raise ConfigurationError(
                "there is no archive: foldlog.connect(archive=...) or $FOLDLOG_ARCHIVE names one"
            )
        return self._core.backend.archiver

    async def close(self) -> None:
        """Let calls under way end, then release everything. Closing again does nothing.

        Raises:
            Misuse: another event loop runs than the store's. Nothing was closed.
        """
        self._core.hot_views.check_loop()
        await self._core.ending.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.close()


def complete(store: BaseStore, reached: Backend) -> None:
    """Have a store use what comes with its log, at once or when an outage has ended."""
    core = core_of(store)
    core.backend = core.backend._replace(
        snapshots=reached.snapshots, server=reached.server, archiver=reached.archiver
    )
    if reached.snapshots is not None:
        core.hot_views.use_snapshots(reached.snapshots)
    if reached.archiver is not None:
        core.on_close(Archiving(reached.archiver).close)
