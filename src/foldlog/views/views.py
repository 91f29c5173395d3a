"""The hot views of a namespace: hydrated on first read, kept live by pushes, evicted by bytes.

What a read promises (ADR 0003):
- `strong`: all that was acked to anyone before the read began. Asks the log, every time.
- `session`: all that was acked to this process. Asks the log only if the view is not current.
- `eventual`: what the view holds, asking the log only if it is cold or long unchecked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any, Final, Literal, TypeVar, get_args

from foldlog.envelope import Recorded
from foldlog.errors import ConfigurationError, LogUnavailable, StoreClosed
from foldlog.log.port import Log, OnRecord, Record
from foldlog.log.snapshots import SnapshotStore
from foldlog.subjects import Subject
from foldlog.views.hot import Hot
from foldlog.views.hydration import Choose, Hydration
from foldlog.views.snapshots import Snapshots
from foldlog.views.view import View
from foldlog_projections.fold import Folded, Projection
from foldlog_projections.items import PAGE, Items

Consistency = Literal["strong", "session", "eventual"]
CONSISTENCIES: Final = get_args(Consistency)

TRUST_SECONDS: Final = 5.0
"""How long pushes are trusted without a look at the log: a lost last push is found by then."""

DEFAULT_MAX_HOT_BYTES: Final = 256 * 1024 * 1024

_AHEAD: Final = 8 * PAGE
"""Envelopes that a watcher who catches up has loaded at once."""

S = TypeVar("S")

_log: Final = logging.getLogger("foldlog")


class Views:
    """The views over one log. Lives as long as its store.

    Args:
        snapshots: where snapshots of long folds are kept. None: nowhere.
        loop: the event loop that alone may use the log; None where any may.
        max_hot_bytes: how much memory the hot views may take, by estimate; beyond it those used
            least recently go.
    """

    def __init__(
        self,
        log: Log,
        snapshots: SnapshotStore | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        max_hot_bytes: int = DEFAULT_MAX_HOT_BYTES,
    ) -> None:
        self._log = log
        self._loop = loop
        self._hot = Hot(max_hot_bytes)
        self._snapshots = Snapshots(log, snapshots) if snapshots is not None else None
        self._relief: asyncio.Task[None] | None = None
        self._hydration = Hydration(log, self._snapshots)
        self.closed = False

    def __len__(self) -> int:
        return len(self._hot)

    def check(self) -> None:
        """Refuse whom the log cannot serve.

        Raises:
            StoreClosed: the log was let go of.
            ConfigurationError: see `check_loop`.
        """
        if self.closed:
            raise StoreClosed
        self.check_loop()

    def check_loop(self) -> None:
        """Refuse every event loop but the log's: what belongs to one never answers another.

        Raises:
            ConfigurationError: another one runs.
        """
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            raise ConfigurationError(
                "this store belongs to another event loop, the one in which it was connected: "
                "one store per event loop, so call foldlog.connect() in this one too"
            )

    async def read(
        self, projection: Projection[S], subject: Subject, consistency: Consistency
    ) -> Folded[S]:
        """Return the fold of `subject`. Use it before the next await; never change it.

        Raises:
            LogUnavailable, LogCorrupt: the log could not be read as far as was asked for.
        """
        view = await self._read(projection, subject, consistency)
        await self._hydration.complete(view)
        return view.folded

    async def select(
        self,
        projection: Projection[Items],
        subject: Subject,
        consistency: Consistency,
        choose: Choose,
    ) -> list[Recorded]:
        """Return the envelopes of a sequence that `choose` wants, and load no others.

        `choose` looks at indexes alone: what is absent has its place in them. Errors as `read`.
        """
        view = await self._read(projection, subject, consistency)
        items = view.folded.state
        if not items.absent:
            return items.take(choose(view.folded))
        return await self._hydration.take(view, choose)

    async def read_at(self, projection: Projection[S], subject: Subject) -> tuple[Folded[S], int]:
        """Read strongly; return the fold with the sequence up to which it has come.

        What is decided on the fold is compared-and-set on that sequence. Of a sequence some pages
        may be absent. Errors as `read`.
        """
        view = await self._read(projection, subject, "strong")
        return view.folded, view.applied

    def current(self, subject: Subject) -> Folded[Any] | None:
        """The fold of `subject`, if it is hot and nothing of it is known to be missing."""
        view = self._hot.get(subject)
        if view is None or not view.is_hydrated or not self._is_current(view):
            return None
        return view.folded

    def is_hot(self, subject: Subject) -> bool:
        """Whether reads of `subject` are answered from memory."""
        view = self._hot.get(subject)
        return view is not None and view.is_hydrated

    def acked(self, subject: Subject, seq: int) -> None:
        """Have later `session` reads of `subject` see what was stored at `seq`."""
        view = self._hot.get(subject)
        if view is not None:
            view.acked(seq)

    def wake(self) -> None:
        """Have every watcher look at the log again: pushes may have been missed."""
        for view in self._hot:
            view.wake()

    async def watch(
        self, projection: Projection[Items], subject: Subject, since_id: str | None
    ) -> AsyncGenerator[Recorded]:
        """Yield the envelopes of `subject` in log order, then each new one, without end.

        Starts after the envelope `since_id`, or at the beginning if that is None or unknown. An
        outage of the log is waited out; what was stored meanwhile follows.

        Raises:
            LogCorrupt, StoreClosed: the log cannot be read any more.
        """
        view = self._view(projection, subject)
        wake = asyncio.Event()
        view.watchers.add(wake)
        self._hot.settle(view)
        seen: dict[str, int] | None = None
        last = -1
        force = True

        def following(folded: Folded[Items]) -> range:
            nonlocal seen, last
            if folded.seen is not seen:  # this is the first look, or the subject was cleared
                last = folded.seen.get(since_id or "", -1) if seen is None else -1
                seen = folded.seen
            return range(last + 1, min(last + 1 + _AHEAD, len(folded.state)))

        try:
            while True:
                found = await self._followed(view, wake, following, force=force)
                for envelope in found:
                    if view.folded.seen is not seen:
                        break
                    last += 1
                    yield envelope
                force = not found and not await _woken(wake, TRUST_SECONDS)
        finally:
            view.watchers.discard(wake)
            self._hot.settle(view)
            await self._abandon(view)

    async def forget(self, subject: Subject) -> None:
        """Remove the snapshot of a subject that was cleared. Errors as `Snapshots.forget`."""
        if self._snapshots is not None:
            await self._snapshots.forget(subject)

    async def drop(self) -> None:
        """Forget every view that nobody watches; the next reads fold the log anew."""
        for view in self._hot:
            if view.is_hydrated and not view.watchers:
                await self._release(view)

    async def drop_snapshots(self, family: str | None = None) -> None:
        """Remove all snapshots, or those of one family. Errors as `Snapshots.forget`."""
        if self._snapshots is not None:
            await self._snapshots.forget_all(family)

    async def close(self) -> None:
        """Forget everything; watchers end with StoreClosed."""
        self.closed = True
        try:
            if self._relief is not None:
                await asyncio.wait([self._relief])
            for view in self._hot:
                view.wake()
                await self._release(view)
        finally:
            if self._snapshots is not None:
                await self._snapshots.close()

    def _is_current(self, view: View[Any], consistency: Consistency = "session") -> bool:
        is_current = view.is_trusted if consistency == "eventual" else view.is_current
        return is_current(time.monotonic(), self._log.epoch, TRUST_SECONDS)

    def _view(self, projection: Projection[S], subject: Subject) -> View[S]:
        self.check()
        view = self._hot.get(subject)
        if view is None:
            view = View(projection, subject, self._hot.account)
            self._hot.add(view)
        return view

    async def _read(
        self, projection: Projection[S], subject: Subject, consistency: Consistency
    ) -> View[S]:
        if consistency not in CONSISTENCIES:
            known = ", ".join(CONSISTENCIES)
            raise ConfigurationError(f"consistency is one of {known}, not {consistency!r}")
        view = self._view(projection, subject)
        if not view.is_hydrated:
            await self._hydrate(view, consistency)
            self._hot.settle(view)
        elif consistency == "strong" or not self._is_current(view, consistency):
            await self._hydration.catch_up(view, strong=consistency != "eventual")
        self._hot.touch(view)
        if self._hot.is_full:
            await self._evict(keep=view)
        return view

    async def _hydrate(self, view: View[Any], consistency: Consistency) -> None:
        """Load a cold view; concurrent readers of it share the first one's load."""
        view.loaders += 1
        try:
            while view.hydrated is not None and not view.hydrated.done():
                # Not the future itself: one reader's cancellation must not become another's.
                await asyncio.wait([view.hydrated])
            if view.hydrated is None:
                await self._load(view)
            elif consistency == "strong" or not self._is_current(view, consistency):
                # What another has loaded may be older than this read.
                await self._hydration.catch_up(view)
        finally:
            view.loaders -= 1
            await self._abandon(view)

    async def _abandon(self, view: View[Any]) -> None:
        """Let go of a view that nobody got to read and nobody waits for."""
        if not (view.is_hydrated or view.loaders or view.watchers):
            await self._release(view)

    async def _load(self, view: View[Any]) -> None:
        loading = view.hydrated = asyncio.get_running_loop().create_future()
        try:
            if view.unfollow is None:
                view.unfollow = await self._log.follow(view.subject, self._hints(view))
            await self._hydration.catch_up(view)
        except BaseException:
            view.hydrated = None
            raise
        finally:
            loading.set_result(None)

    def _hints(self, view: View[Any]) -> OnRecord:
        snapshots = self._snapshots

        def hint(record: Record) -> None:
            view.hint(record, self._log.epoch)
            if snapshots is not None:
                snapshots.offer(view)
            if self._hot.is_full and (self._relief is None or self._relief.done()):
                relief = self._evict(keep=None)
                self._relief = asyncio.get_running_loop().create_task(relief, name="foldlog evict")

        return hint

    async def _followed(
        self, view: View[Items], wake: asyncio.Event, choose: Choose, *, force: bool
    ) -> list[Recorded]:
        """What of a watched view comes next, however long it takes until the log is there."""
        while not self.closed:
            try:
                if not view.is_hydrated:
                    await self._hydrate(view, "session")
                elif force or not self._is_current(view):
                    await self._hydration.catch_up(view)
                return await self._hydration.take(view, choose)
            except LogUnavailable as error:
                _log.info("watching %s: %s; waiting for the log", view.subject.name, error)
                await _woken(wake, TRUST_SECONDS)
                force = True
        raise StoreClosed

    async def _evict(self, keep: View[Any] | None) -> None:
        while (view := self._hot.surplus(keep)) is not None:
            if self._snapshots is not None:
                self._snapshots.withdraw(view)
            await self._release(view)

    async def _release(self, view: View[Any]) -> None:
        if self._hot.remove(view) and view.unfollow is not None:
            unfollow, view.unfollow = view.unfollow, None
            await unfollow()


async def _woken(wake: asyncio.Event, timeout: float) -> bool:
    """Wait to be woken; False if that did not happen in time."""
    try:
        async with asyncio.timeout(timeout):
            await wake.wait()
    except TimeoutError:
        return False
    wake.clear()
    return True
