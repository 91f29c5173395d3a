"""Loading and writing snapshots: loading when a long view is cold, writing behind everybody's back.

Nobody ever waits for a snapshot to be written, and nothing fails because one is not there. What
cannot be loaded is done without; what cannot be written is tried again when more has gathered.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final, TypeVar

from foldlog.envelope import CLEARED
from foldlog.errors import AppendFailed, ConfigurationError, FoldlogError, LogUnavailable
from foldlog.log.port import Log
from foldlog.log.snapshots import SnapshotStore
from foldlog.subjects import Subject
from foldlog.views import snapshot
from foldlog.views.editions import Editions
from foldlog.views.snapshot import Draft, Restored, Unusable
from foldlog.views.view import Key, View, continues
from foldlog_projections.fold import Projection

S = TypeVar("S")

_SHARE: Final = 0.1
"""The share of the time that writing may take: after each snapshot it rests nine times as long."""

CLOSING_SECONDS: Final = 1.0
"""What the snapshots still waiting get when the store closes."""

_RESTORED_IN_A_THREAD: Final = 1024 * 1024
"""Bytes from which making a fold of them would hold the event loop up."""

_log: Final = logging.getLogger("foldlog")


class Snapshots:
    """The snapshots of one store's views. Lives as long as they do."""

    def __init__(self, log: Log, store: SnapshotStore) -> None:
        self._log = log
        self._store = store
        self.editions = Editions(log.namespace, store)
        self._waiting: OrderedDict[Key, View[Any] | None] = OrderedDict()
        self._writer: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self._changing = asyncio.Lock()
        self._closing = False
        self._reported: set[Subject | None] = set()

    @property
    def store(self) -> SnapshotStore:
        """Where they are kept."""
        return self._store

    def may_spare(self, subject: Subject) -> bool:
        """Whether a subject may have a snapshot however short it is: its records may be spread."""
        return self._store.reach(subject) > snapshot.DUE_SPAN

    async def load(
        self, projection: Projection[S], subject: Subject, *, lightly: bool = False
    ) -> Restored[S] | None:
        """Return the fold that a snapshot has, if there is one that can be used.

        `lightly`: with one request where there is none, by which one may be missed that was
        written since others have rebuilt.
        It stands only while the log holds its `ground`: that is for the caller to see.
        """
        if not snapshot.is_keepable(projection):
            return None
        try:
            edition = self.editions.last_known(projection)
            if lightly:
                (data,) = await self._store.get(subject, [0], edition)
                if data is None:
                    return None
                current = await self.editions.current(projection)
            else:
                # Both at once: which edition it is rarely changes.
                current, (data,) = await asyncio.gather(
                    self.editions.current(projection), self._store.get(subject, [0], edition)
                )
            if current != edition:
                (data,) = await self._store.get(subject, [0], current)
            if data is None:
                return None
            head = snapshot.read_head(data, projection, await self._store.identity(subject))
            if head is None:
                return None
            parts = await self._store.get(subject, range(1, len(head.parts) + 1), current)
            restoring = functools.partial(snapshot.restore, projection, head, parts)
            size = len(head.state) + len(head.rest) + sum(len(part or b"") for part in parts)
            is_large = size > _RESTORED_IN_A_THREAD
            restored = await asyncio.to_thread(restoring) if is_large else restoring()
            return restored._replace(edition=current)
        except LogUnavailable as error:
            _log.info("no snapshot of %s: %s", subject.name, error)
        except Unusable as error:
            self._report(subject, f"{error}; folding the log, and replacing it when it is due")
        return None

    async def load_other(
        self, projection: Projection[Any], subject: Subject
    ) -> tuple[int, Restored[Any]] | None:
        """Return what another version of a projection has, and which version.

        Of a state that is no sequence: in MessagePack's own types. Errors as `SnapshotStore.get`.
        """
        identity = await self._store.identity(subject)
        for edition in await self.editions.of_other_versions(projection):
            (data,) = await self._store.get(subject, [0], edition)
            head = None if data is None else snapshot.read_other_head(data, projection, identity)
            if head is None:
                continue
            try:
                parts = await self._store.get(subject, range(1, len(head.parts) + 1), edition)
                return head.version, snapshot.restore(snapshot.Foreign(head), head, parts)
            except Unusable:
                continue
        return None

    async def keep(self, view: View[Any], edition: str) -> None:
        """Write the snapshot of a view that nobody reads yet into an edition, if it is due.

        Raises:
            LogUnavailable: it may be written or not. Where it is refused, a line is logged.
        """
        if not (
            snapshot.is_keepable(view.projection)
            and snapshot.is_due(view.unsaved, view.unsaved_bytes)  # not for each that is spread
        ):
            return
        view.edition = edition
        try:
            await self._write_into(view)
        except (AppendFailed, ConfigurationError) as error:
            self._report(view.subject, str(error))

    def offer(self, view: View[Any]) -> None:
        """Have a snapshot of a view written, some time, if it is due."""
        if snapshot.is_due(view.unsaved, view.unsaved_bytes, view.span) and snapshot.is_keepable(
            view.projection
        ):
            self._wait(view.key, view)

    def withdraw(self, view: View[Any]) -> None:
        """Write no snapshot of a view that is evicted: waiting would keep it in memory."""
        if self._waiting.get(view.key) is view:
            del self._waiting[view.key]

    def discard(self, subject: Subject) -> None:
        """Have a snapshot removed, some time, that no view will use."""
        self._wait(subject, None)

    @asynccontextmanager
    async def resting(self) -> AsyncGenerator[None]:
        """Have none written behind anybody's back meanwhile."""
        self._enter_loop()
        async with self._changing:
            yield

    async def forget(self, subject: Subject) -> None:
        """Remove the snapshot of a subject.

        Raises:
            LogUnavailable: it may still be there; forgetting again is safe.
        """
        self._waiting.pop(subject, None)
        await self._store.purge(subject)

    async def forget_all(self, family: str | None = None) -> None:
        """Remove all snapshots, or those of one family. Errors as `forget`."""
        self._waiting.clear()
        self._enter_loop()
        async with self._changing:  # what is being written now goes as well
            await self._store.purge_all(family)

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

    def _wait(self, key: Key, view: View[Any] | None) -> None:
        if self._closing:
            return  # nobody would wait for it
        self._enter_loop()
        self._waiting[key] = view
        if self._writer is None or self._writer.done():
            self._writer = asyncio.get_running_loop().create_task(
                self._write_all(), name="foldlog snapshots"
            )

    def _enter_loop(self) -> None:
        """Leave behind what belongs to another event loop: a log in memory serves any."""
        if self._writer is None or self._writer.get_loop() is asyncio.get_running_loop():
            return
        self._writer, self._hurry, self._changing = None, asyncio.Event(), asyncio.Lock()

    async def _write_all(self) -> None:
        while self._waiting:
            key, view = self._waiting.popitem(last=False)
            subject = key if isinstance(key, Subject) else key[0]
            began = time.monotonic()
            try:
                async with self._changing:
                    if view is None:
                        await self._store.purge(subject)
                    else:
                        await self._write(view)
            except AppendFailed as error:
                self._report(subject, str(error))
            except ConfigurationError as error:
                self._report(None, str(error))
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
        edition = await self.editions.current(view.projection)
        if edition != view.edition:  # what was stored is no part of what is read now
            view.edition, view.sealed = edition, ()
        await self._write_into(view)

    async def _write_into(self, view: View[Any]) -> None:
        identity = await self._store.identity(view.subject)
        folded, ground = view.folded, view.ground
        if ground is None or not snapshot.is_due(view.unsaved, view.unsaved_bytes, view.span):
            return  # it was cleared meanwhile
        content = snapshot.content_of(folded, view.span)
        covered = snapshot.covered(folded, content)
        if covered == 0 or covered <= len(folded.seen) - view.unsaved:
            view.pass_over()  # what is new is too large for the head, and no full page
            return
        seen = folded.seen
        draft = Draft(view.projection, folded, ground, view.sealed, identity, content)
        view.saved(draft.covered, draft.ground.seq)
        for number, data in draft.parts():
            await self._put(view, number, data)
        await self._put(view, 0, draft.head())
        if view.folded.seen is seen:
            view.sealed = draft.sealed
        try:
            stands = await self._stands(draft, view.subject)
        except LogUnavailable:
            self.discard(view.subject)  # nobody knows whether it stands
            raise
        if not stands:
            await self._store.purge(view.subject)

    async def _put(self, view: View[Any], number: int, data: bytes) -> None:
        if len(data) > self._store.max_bytes:
            # What it does not cover must have doubled before it is worth another attempt.
            view.postpone()
            raise AppendFailed(f"{len(data)} bytes; a message holds {self._store.max_bytes}")
        await self._store.put(view.subject, number, data, view.edition)

    async def _stands(self, draft: Draft, subject: Subject) -> bool:
        """Whether what was written is of what the log holds, and was not cleared before it came.

        Whoever clears the subject after this removes the snapshot too.
        """
        async with aclosing(self._log.read(subject, after=draft.ground.seq - 1)) as pages:
            async for records in pages:
                first = records[0]
                return (
                    continues(draft.ground, first, within=True)
                    and first.envelopes[0].type != CLEARED
                )
        return False

    def _report(self, subject: Subject | None, reason: str) -> None:
        """Say once what keeps the snapshot of a subject, or any, from being of use."""
        if subject not in self._reported:
            self._reported.add(subject)
            what = f"the snapshot of {subject.name}" if subject else "snapshots"
            _log.warning("%s: %s", what, reason)
