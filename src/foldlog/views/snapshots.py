"""Loading and writing snapshots: loading when a long view is cold, writing in the background.

Nobody ever waits for a snapshot to be written, and nothing fails because one is not there. What
cannot be loaded is done without; what cannot be written is tried again when more has gathered.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from contextlib import aclosing
from typing import Any, Final, TypeVar

from foldlog.envelope import CLEARED, Position
from foldlog.errors import AppendFailed, ConfigurationError, FoldlogError, LogUnavailable
from foldlog.kind import Kind
from foldlog.log.port import Log
from foldlog.log.snapshots import SnapshotStore, Unusable
from foldlog.subjects import Subject
from foldlog.views import snapshot
from foldlog.views.fold import Fold, holds
from foldlog.views.snapshot import Restored
from foldlog.views.view import View
from foldlog_projections.items import PAGE

S = TypeVar("S")

DUE_ENVELOPES: Final = 1024
DUE_BYTES: Final = 1024 * 1024
DUE_SHARE: Final = 1 / 8
"""A snapshot is due when so many envelopes or bytes, and such a share of all envelopes, are not
covered. It is written whole each time: a share of the whole keeps all writing together linear.
"""

MOST_BYTES: Final = 64 * 1024 * 1024
"""A larger snapshot would hold up the event loop that makes it."""

QUIET_SECONDS: Final = 1.0
"""How long nobody has written to a view whose snapshot is due early."""

_SHARE: Final = 0.1
"""The share of the time that writing may take: after each snapshot it rests nine times as long."""

CLOSING_SECONDS: Final = 1.0
"""What the snapshots still waiting get when the store closes."""

_RESTORED_IN_A_THREAD: Final = 1024 * 1024
"""Bytes from which making a fold of them would hold the event loop up."""

_log: Final = logging.getLogger("foldlog.snapshots")


def is_due(view: View[Any]) -> bool:
    """Whether what no snapshot of a view covers is worth one."""
    is_early = view.projection.early_snapshots or view.unsaved_bytes >= DUE_BYTES
    least = PAGE if is_early else DUE_ENVELOPES
    return view.unsaved >= max(least, DUE_SHARE * view.folded.count)


class Snapshots:
    """The snapshots of one store's views. Lives as long as they do. `store` is where they are."""

    def __init__(self, log: Log, store: SnapshotStore) -> None:
        self.store = store
        self._log = log
        # When it may be written, by view; by subject, when its snapshots may be removed.
        self._waiting: dict[View[Any] | Subject, float] = {}
        self._writer: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._writing = asyncio.Lock()
        self._closing = False
        self._reported: set[Subject | None] = set()

    async def load(self, projection: Kind[S], subject: Subject) -> Restored[S] | None:
        """Return the fold that a snapshot has, if there is one that can be used.

        It stands only while the log holds its `end`: that is for the caller to see.
        """
        if not snapshot.is_keepable(projection):
            return None
        try:
            data = await self.store.get(subject, projection.name)
            if data is None:
                return None
            identity = await self.store.identity(subject)
            unpacking = functools.partial(snapshot.unpack, projection, data, identity)
            is_large = len(data) > _RESTORED_IN_A_THREAD
            return await asyncio.to_thread(unpacking) if is_large else unpacking()
        except LogUnavailable as error:
            _log.info("no snapshot of %s: %s", subject.name, error)
        except Unusable as error:
            self._report(subject, f"{error}; folding the log, and replacing it when it is due")
        return None

    def offer(self, view: View[Any]) -> None:
        """Have a snapshot of a view written, some time, if it is due."""
        if is_due(view) and snapshot.is_keepable(view.projection):
            is_early = view.projection.early_snapshots and view.unsaved < DUE_ENVELOPES
            self._wait(view, time.monotonic() + QUIET_SECONDS if is_early else 0.0)

    def withdraw(self, view: View[Any]) -> None:
        """Write no snapshot of a view that is evicted: waiting would keep it in memory."""
        self._waiting.pop(view, None)

    def discard(self, subject: Subject) -> None:
        """Have the snapshots of a subject removed, some time, that no view will use."""
        self._wait(subject, 0.0)

    async def write(self, fold: Fold[Any], covered: int) -> None:
        """Write the snapshot of a fold now, if so many envelopes that one covers leave it due."""
        view = View(fold.projection, fold.subject)
        view.folded, view.applied, view.last = fold.folded, fold.applied, fold.last
        view.saved(covered)
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

    def _wait(self, which: View[Any] | Subject, until: float) -> None:
        if self._closing:
            return  # nobody would wait for it
        self._enter_loop()
        if until:
            self._waiting.pop(which, None)  # it goes behind the others
        self._waiting[which] = until
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
            which, until = next(iter(self._waiting.items()))
            if (early := until - time.monotonic()) > 0 and not self._closing:
                await self._rest(early)
                continue
            del self._waiting[which]
            subject = which if isinstance(which, Subject) else which.subject
            began = time.monotonic()
            try:
                async with self._writing:
                    if isinstance(which, Subject):
                        await self.store.purge(which)
                    else:
                        await self._write(which)
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
        subject, began = view.subject, time.monotonic()
        try:
            identity = await self.store.identity(subject)
            if view.last is None or not is_due(view):
                return  # it was cleared meanwhile
            end, covered = view.last, view.folded.count
            data = snapshot.pack(view, end, identity)
            if len(data) > MOST_BYTES:
                # What it does not cover must have doubled before it is worth another attempt.
                view.postpone()
                raise AppendFailed(f"{len(data)} bytes; at most {MOST_BYTES} are kept")
            view.saved(covered)
            await self.store.put(subject, view.projection.name, data)
        except AppendFailed as error:
            self._report(subject, str(error))
            return
        except ConfigurationError as error:
            self._report(None, str(error))
            return
        _log.debug(
            "snapshot of %s written: %d envelopes, %d bytes, in %.4f s",
            *(subject.name, covered, len(data), time.monotonic() - began),
        )
        try:
            stands = await self._stands(end, subject)
        except LogUnavailable:
            self.discard(subject)  # nobody knows whether it stands
            raise
        if not stands:
            await self.store.purge(subject)

    async def _stands(self, end: Position, subject: Subject) -> bool:
        """Whether what was written is of what the log holds, and was not cleared before it came.

        A clearing of the subject after this removes the snapshot, too.
        """
        async with aclosing(self._log.read(subject, after=end.seq - 1)) as pages:
            async for records in pages:
                first = records[0]
                return holds(end, first) and first.envelopes[0].type != CLEARED
        return False

    def _report(self, subject: Subject | None, reason: str) -> None:
        """Say once what keeps the snapshot of a subject, or any, from being of use."""
        if subject not in self._reported:
            self._reported.add(subject)
            what = f"the snapshot of {subject.name}" if subject else "snapshots"
            _log.warning("%s: %s", what, reason)
