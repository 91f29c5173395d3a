"""The hot views of a namespace: hydrated on first read, kept live by pushes, evicted by bytes.

What a read promises (ADR 0003):
- `linearizable`: `strong`, even while a deposed leader believes that it leads. Asks a majority.
- `strong`: all that was acked to anyone before the read began. Asks the log, every time.
- `session`: all that was acked to this process. Asks the log only if the view is not current.
- `eventual`: what the view holds, asking the log only if it is cold or long unchecked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import get_running_loop
from collections.abc import AsyncGenerator, Callable, Container, Iterable
from typing import Any, Final, Literal, TypeVar, get_args

from foldlog.envelope import Recorded
from foldlog.errors import ConfigurationError, LogRewound, LogUnavailable, StoreClosed
from foldlog.log.port import Log, OnRecord, Record
from foldlog.log.snapshots import SnapshotStore
from foldlog.subjects import Subject
from foldlog.views.hot import Hot
from foldlog.views.hydration import Choose, Hydration
from foldlog.views.snapshots import Snapshots
from foldlog.views.view import View, key_of
from foldlog_projections.fold import Folded, Projection
from foldlog_projections.items import PAGE, Items
from foldlog_projections.own import family_of

Consistency = Literal["linearizable", "strong", "session", "eventual"]
CONSISTENCIES: Final = get_args(Consistency)

TRUST_SECONDS: Final = 5.0
"""How long pushes are trusted without a look at the log: a lost last push is found by then."""

DEFAULT_MAX_HOT_BYTES: Final = 256 * 1024 * 1024

_AHEAD: Final = 8 * PAGE
"""Envelopes that a watcher who catches up has loaded at once."""

S = TypeVar("S")

Source = Literal["hit", "catch-up", "hydration"]
"""How a read is answered: from memory, after asking the log for what is new, or from the log."""

OnRead = Callable[[str, Source], None]
"""Hears the name of the projection that is read, and the source."""

_log: Final = logging.getLogger("foldlog")


class Views:
    """The views over one log. Lives as long as its store.

    Args:
        snapshots: where snapshots of long folds are kept. None: nowhere.
        loop: the event loop that alone may use the log; None where any may.
        max_hot_bytes: how much memory the hot views may take, by estimate; beyond it those used
            least recently go.
        live: False for a log that ends for ever where it ends now: what was read once stands, and
            watching ends there.
        own: projections that fold a family beside the family's own.
    """

    def __init__(
        self,
        log: Log,
        snapshots: SnapshotStore | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        max_hot_bytes: int = DEFAULT_MAX_HOT_BYTES,
        live: bool = True,
        own: Iterable[Projection[Any]] = (),
    ) -> None:
        self._log = log
        self._loop = loop
        self._live = live
        self._beside: dict[str, list[str]] = {}
        for each in own:
            self._beside.setdefault(family_of(each), []).append(each.name)
        self._hot = Hot(max_hot_bytes)
        self._snapshots = Snapshots(log, snapshots) if snapshots is not None else None
        self._relief: asyncio.Task[None] | None = None
        self._hydration = Hydration(log, self._snapshots)
        self._rewound: LogRewound | None = None
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
        if self._loop is not None and get_running_loop() is not self._loop:
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
            LogRewound: the log was restored or replaced under this store. From then on no read
                answers, until `drop`: what was told before is no longer so.
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

    async def read_at(
        self, projection: Projection[S], subject: Subject, consistency: Consistency = "strong"
    ) -> tuple[Folded[S], int]:
        """Return the fold with the sequence up to which it has come.

        What is decided on the fold is compared-and-set on that sequence. Of a sequence some pages
        may be absent. Errors as `read`.
        """
        view = await self._read(projection, subject, consistency)
        return view.folded, view.applied

    def current(self, subject: Subject) -> Folded[Any] | None:
        """The fold of `subject`, if it is hot and nothing of it is known to be missing."""
        view = self._hot.get(subject)
        if view is None or not view.is_hydrated or not self._is_current(view):
            return None
        return view.folded

    @property
    def snapshots(self) -> Snapshots | None:
        """The snapshots of these views, if there are to be any."""
        return self._snapshots

    def use_snapshots(self, store: SnapshotStore) -> None:
        """Have views that are loaded from now on look for snapshots there."""
        self._snapshots = Snapshots(self._log, store)
        self._hydration = Hydration(self._log, self._snapshots)

    def peek(self, projection: Projection[S], subject: Subject) -> View[S] | None:
        """The view as it is, if it is hot. Use it before the next await; never change it."""
        view = self._hot.get(key_of(projection, subject))
        return view if view is not None and view.is_hydrated else None

    def is_hot(self, subject: Subject) -> bool:
        """Whether reads of `subject` are answered from memory."""
        view = self._hot.get(subject)
        return view is not None and view.is_hydrated

    def acked(self, subject: Subject, seq: int) -> None:
        """Have later `session` reads of `subject` see what was stored at `seq`."""
        view = self._hot.get(subject)
        if view is not None:
            view.acked(seq)
        for name in self._beside.get(subject.family, ()):
            view = self._hot.get((subject, name))
            if view is not None:
                view.acked(seq)

    def unsettled(self, subject: Subject) -> None:
        """Have the next read of `subject` ask the log: an append to it may be stored or not."""
        view = self._hot.get(subject)
        if view is not None:
            view.unsettle(time.monotonic())

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
        self._check_read()
        view = self._view(projection, subject)
        wake = asyncio.Event()
        view.watchers.add(wake)
        self._hot.settle(view)
        seen: dict[str, int] | None = None
        last = -1
        cleared_at = 0
        force = True

        def following(folded: Folded[Items]) -> range:
            nonlocal seen, last, cleared_at
            if folded.seen is not seen:  # the first look, or it was cleared, or folded anew
                goes_on = seen is None or folded.cleared_at == cleared_at
                last = folded.seen.get(since_id or "", -1) if goes_on else -1
                seen, cleared_at = folded.seen, folded.cleared_at
            return range(last + 1, min(last + 1 + _AHEAD, len(folded.state)))

        try:
            while True:
                found = await self._followed(view, wake, following, force=force)
                for envelope in found:
                    if view.folded.seen is not seen:
                        break
                    last += 1
                    since_id = envelope.id
                    yield envelope
                if not (found or self._live):
                    return
                force = not found and not await _woken(wake, TRUST_SECONDS)
        finally:
            view.watchers.discard(wake)
            self._hot.settle(view)
            await self._abandon(view)

    async def advances(self, projection: Projection[Any], subject: Subject) -> AsyncGenerator[int]:
        """Yield how far the fold of `subject` has come: now, and whenever that is further.

        An outage of the log is waited out. Errors as `watch`.
        """
        self._check_read()
        view = self._view(projection, subject)
        wake = asyncio.Event()
        view.watchers.add(wake)
        self._hot.settle(view)
        reached, force = -1, True
        try:
            while True:
                await self._followed(view, wake, None, force=force)
                has_moved = view.applied != reached
                if has_moved:
                    reached = view.applied
                    yield reached
                if not (has_moved or self._live):
                    return
                force = not has_moved and not await _woken(wake, TRUST_SECONDS)
        finally:
            view.watchers.discard(wake)
            self._hot.settle(view)
            await self._abandon(view)

    @property
    def lag(self) -> int:
        """By how many sequences the view that is most behind lacks what it has heard of."""
        return max((view.known_head - view.applied for view in self._hot), default=0)

    def observe(self, on_read: OnRead) -> None:
        """Have `on_read` called before each read. Until then nothing is spent on it."""
        read = self._read

        async def observed(
            projection: Projection[S], subject: Subject, consistency: Consistency
        ) -> View[S]:
            on_read(projection.name, self._source(projection, subject, consistency))
            return await read(projection, subject, consistency)

        vars(self)["_read"] = observed  # in front of the method

    async def forget(self, subject: Subject) -> None:
        """Remove the snapshot of a subject that was cleared. Errors as `Snapshots.forget`."""
        if self._snapshots is not None:
            await self._snapshots.forget(subject)

    async def drop(self, names: Container[str] | None = None) -> None:
        """Forget every view, or those of projections by name; reads fold the log anew, as it is.

        What they held may be wrong, and no snapshot of it is written from here on. A view that
        somebody watches begins anew; the watcher goes on after what it has seen last.
        """
        self._rewound = None
        for view in self._hot:
            if not view.is_hydrated or (names is not None and view.projection.name not in names):
                continue
            if view.watchers:
                view.reset()
                view.wake()
            else:
                if self._snapshots is not None:
                    self._snapshots.withdraw(view)
                view.postpone()  # what is about to write its snapshot finds none due
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

    def _source(
        self, projection: Projection[Any], subject: Subject, consistency: Consistency
    ) -> Source:
        view = self._hot.get(key_of(projection, subject))
        if view is None or not view.is_hydrated:
            return "hydration"
        hit = consistency in ("session", "eventual") and self._is_current(view, consistency)
        return "hit" if hit else "catch-up"

    def _is_current(self, view: View[Any], consistency: Consistency = "session") -> bool:
        if not self._live:
            return True
        is_current = view.is_trusted if consistency == "eventual" else view.is_current
        return is_current(time.monotonic(), self._log.epoch, TRUST_SECONDS)

    def _view(self, projection: Projection[S], subject: Subject) -> View[S]:
        view = self._hot.get(key_of(projection, subject))
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
        self._check_read()
        if consistency == "linearizable":
            await self._log.barrier(subject.shard)
            consistency = "strong"
        view = self._view(projection, subject)
        try:
            if not view.is_hydrated:
                await self._hydrate(view, consistency)
                self._hot.settle(view)
            elif not self._is_current(view, consistency) or (
                consistency == "strong" and self._live
            ):
                await self._hydration.catch_up(view, strong=consistency != "eventual")
        except LogRewound as error:
            self._rewound = error
            raise
        if self._rewound is not None:
            self._check_read()  # another reader has found out meanwhile
        self._hot.touch(view)
        if self._hot.is_full:
            await self._evict(keep=view)
        return view

    def _check_read(self) -> None:
        self.check()
        if self._rewound is not None:
            found = self._rewound
            raise LogRewound(found.stream, found.sequence, found.reason)

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
        self, view: View[Any], wake: asyncio.Event, choose: Choose | None, *, force: bool
    ) -> list[Recorded]:
        """What of a watched view comes next, however long it takes until the log is there.

        Without `choose` nothing does: the view is current.
        """
        while not self.closed:
            self._check_read()
            try:
                if not view.is_hydrated:
                    await self._hydrate(view, "session")
                elif force or not self._is_current(view):
                    await self._hydration.catch_up(view)
                return [] if choose is None else await self._hydration.take(view, choose)
            except LogRewound as error:
                self._rewound = error
                raise
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
