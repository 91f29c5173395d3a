"""Loading and writing snapshots: loading when a long view is cold, writing in the background.

Nobody ever waits for a snapshot to be written, and nothing fails because one is not there. What
cannot be loaded is done without; what cannot be written is tried again when more has gathered.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import OrderedDict
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeVar

from foldlog.envelope import CLEARED
from foldlog.errors import AppendFailed, ConfigurationError, FoldlogError, LogUnavailable
from foldlog.log.port import Log
from foldlog.log.snapshots import SnapshotStore
from foldlog.subjects import Subject
from foldlog.views import snapshot
from foldlog.views.fold import Fold, holds
from foldlog.views.snapshot import Restored, Sealing, Unusable
from foldlog.views.view import Key, View
from foldlog_projections.fold import Projection

S = TypeVar("S")

_SHARE: Final = 0.1
"""The share of the time that writing may take: after each snapshot it rests nine times as long."""

QUIET_SECONDS: Final = 1.0
"""How long nobody has written to a view whose snapshot is due early."""

CLOSING_SECONDS: Final = 1.0
"""What the snapshots still waiting get when the store closes."""

_RESTORED_IN_A_THREAD: Final = 1024 * 1024
"""Bytes from which making a fold of them would hold the event loop up."""

_log: Final = logging.getLogger("foldlog.snapshots")


class _Waiting(NamedTuple):
    """A view whose snapshot is to be written, not before a time; None: one is to be removed."""

    view: View[Any] | None
    until: float


class Snapshots:
    """The snapshots of one store's views. Lives as long as they do. `store` is where they are."""

    def __init__(self, log: Log, store: SnapshotStore) -> None:
        self.store = store
        self._log = log
        self._waiting: OrderedDict[Key, _Waiting] = OrderedDict()
        self._writer: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._writing = asyncio.Lock()
        self._closing = False
        self._reported: set[Subject | None] = set()

    async def load(self, projection: Projection[S], subject: Subject) -> Restored[S] | None:
        """Return the fold that a snapshot has, if there is one that can be used.

        It stands only while the log holds its `end`: that is for the caller to see.
        """
        if not snapshot.is_keepable(projection):
            return None
        slot = snapshot.slot_of(projection)
        try:
            (data,) = await self.store.get(subject, [0], slot)
            if data is None:
                return None
            head = snapshot.read_head(data, projection, await self.store.identity(subject))
            if head is None:
                return None
            parts = await self.store.get(subject, range(1, len(head.parts) + 1), slot)
            restoring = functools.partial(snapshot.restore, projection, head, parts)
            size = len(head.state) + len(head.rest) + sum(len(part or b"") for part in parts)
            is_large = size > _RESTORED_IN_A_THREAD
            return await asyncio.to_thread(restoring) if is_large else restoring()
        except LogUnavailable as error:
            _log.info("no snapshot of %s: %s", subject.name, error)
        except Unusable as error:
            self._report(subject, f"{error}; folding the log, and replacing it when it is due")
        return None

    async def names(self, projection: Projection[Any]) -> set[str]:
        """Return the names of the subjects with snapshots of a projection.

        For operators. Errors as `SnapshotStore.get`.
        """
        if not snapshot.is_keepable(projection):
            return set()
        return await self.store.names(projection.family, snapshot.slot_of(projection))

    def offer(self, view: View[Any]) -> None:
        """Have a snapshot of a view written, some time, if it is due."""
        if not snapshot.is_keepable(view.projection):
            return
        if snapshot.is_due(view.unsaved, view.unsaved_bytes):
            self._wait(view.key, view)
        elif _is_due(view):
            self._wait(view.key, view, time.monotonic() + QUIET_SECONDS)

    def withdraw(self, view: View[Any]) -> None:
        """Write no snapshot of a view that is evicted: waiting would keep it in memory."""
        if view.key in self._waiting and self._waiting[view.key].view is view:
            del self._waiting[view.key]

    def discard(self, subject: Subject) -> None:
        """Have a snapshot removed, some time, that no view will use."""
        self._wait(subject, None)

    async def write_fold(self, fold: Fold[Any], covered: int) -> None:
        """Write the snapshot of a fold now, if so many envelopes that none covers make it due."""
        view = View(fold.projection, fold.subject)
        view.folded, view.applied, view.last = fold.folded, fold.applied, fold.last
        view.saved(covered)
        if _is_due(view):
            await self._write(view)

    async def settle(self) -> None:
        """Return when the snapshot is written that is being written now, if any."""
        self._enter_loop()
        async with self._writing:
            return

    async def forget(self, subject: Subject, *, overwrite: bool = True) -> None:
        """Remove the snapshots of a subject. `overwrite`: see `Log.purge`."""
        self._waiting.pop(subject, None)
        await self.store.purge(subject, overwrite=overwrite)

    async def forget_all(self) -> None:
        """Remove all snapshots."""
        self._waiting.clear()
        self._enter_loop()
        async with self._writing:
            await self.store.purge_all()

    async def close(self) -> None:
        """Write what waits if that takes no time to speak of, and let go of the rest."""
        self._enter_loop()
        self._closing = True
        self._hurry.set()
        if self._writer is not None and not self._writer.done():
            try:
                await asyncio.wait([self._writer], timeout=CLOSING_SECONDS)
            finally:
                self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)

    def _wait(self, key: Key, view: View[Any] | None, until: float = 0.0) -> None:
        if self._closing:
            return  # nobody would wait for it
        self._enter_loop()
        self._waiting[key] = _Waiting(view, until)
        if until:
            self._waiting.move_to_end(key)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(
                self._write_all(), name="foldlog snapshots"
            )

    def _enter_loop(self) -> None:
        """Leave behind what belongs to another event loop: a log in memory serves any."""
        if self._writer is None or self._writer.get_loop() is asyncio.get_running_loop():
            return
        self._writer, self._hurry, self._writing = None, asyncio.Event(), asyncio.Lock()

    async def _write_all(self) -> None:
        while self._waiting:
            key, (view, until) = next(iter(self._waiting.items()))
            if (early := until - time.monotonic()) > 0 and not self._closing:
                await self._rest(early)
                continue
            del self._waiting[key]
            subject = key if isinstance(key, Subject) else key[0]
            began = time.monotonic()
            try:
                async with self._writing:
                    if view is None:
                        await self.store.purge(subject)
                    else:
                        await self._write(view)
            except FoldlogError as error:
                _log.info("no snapshot of %s: %s", subject.name, error)
            await self._rest((time.monotonic() - began) * (1 / _SHARE - 1))

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            return

    async def _write(self, view: View[Any]) -> None:
        """Write the snapshot of a view if it is due and possible."""
        if not snapshot.is_keepable(view.projection):
            return
        try:
            identity = await self.store.identity(view.subject)
            folded, end = view.folded, view.last
            if end is None or not _is_due(view):
                return  # it was cleared meanwhile
            made = Sealing(view.projection, folded, end, view.sealed, identity)
            if made.covered <= len(folded.seen) - view.unsaved:
                return  # no page is full that was not
            await self._store(view, made)
        except AppendFailed as error:
            self._report(view.subject, str(error))
        except ConfigurationError as error:
            self._report(None, str(error))

    async def _store(self, view: View[Any], made: Sealing) -> None:
        seen, began, size = view.folded.seen, time.monotonic(), 0
        view.saved(made.covered)
        for number, data in made.parts():
            size += await self._put(view, number, data)
        size += await self._put(view, 0, made.head())
        _log.debug(
            "snapshot of %s written: %d envelopes, %d bytes, in %.4f s",
            *(view.subject.name, made.covered, size, time.monotonic() - began),
        )
        if view.folded.seen is seen:
            view.sealed = made.sealed
        try:
            stands = await self._stands(made, view.subject)
        except LogUnavailable:
            self.discard(view.subject)  # nobody knows whether it stands
            raise
        if not stands:
            await self.store.purge(view.subject)

    async def _put(self, view: View[Any], number: int, data: bytes) -> int:
        if len(data) > self.store.max_bytes:
            # What it does not cover must have doubled before it is worth another attempt.
            view.postpone()
            raise AppendFailed(f"{len(data)} bytes; a message holds {self.store.max_bytes}")
        await self.store.put(view.subject, number, data, snapshot.slot_of(view.projection))
        return len(data)

    async def _stands(self, made: Sealing, subject: Subject) -> bool:
        """Whether what was written is of what the log holds, and was not cleared before it came.

        A clearing of the subject after this removes the snapshot, too.
        """
        async with aclosing(self._log.read(subject, after=made.end.seq - 1)) as pages:
            async for records in pages:
                first = records[0]
                return holds(made.end, first) and first.envelopes[0].type != CLEARED
        return False

    def _report(self, subject: Subject | None, reason: str) -> None:
        """Say once what keeps the snapshot of a subject, or any, from being of use."""
        if subject not in self._reported:
            self._reported.add(subject)
            what = f"the snapshot of {subject.name}" if subject else "snapshots"
            _log.warning("%s: %s", what, reason)


def _is_due(view: View[Any]) -> bool:
    """Whether a snapshot of a view is due, now or when it is quiet."""
    return snapshot.is_due(view.unsaved, view.unsaved_bytes) or snapshot.is_due_early(
        view.projection, view.unsaved, len(view.folded.seen)
    )
