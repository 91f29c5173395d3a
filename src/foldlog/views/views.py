"""The hot views of a namespace: hydrated on first read, updated by pushes, evicted by bytes.

What a read promises (ADR 0003):
- `strong`: all that was acked to anyone before the read began. Asks the log, every time.
- `session`: all that was acked to this process. Asks the log only if the view is not current.
- `eventual`: what the view holds, asking the log only if it is cold or long unchecked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from asyncio import _get_running_loop
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Final, Literal, TypeVar, get_args

from foldlog.envelope import Recorded
from foldlog.errors import ConfigurationError, LogUnavailable, Misuse, PastErased, StoreClosed
from foldlog.kind import Kind
from foldlog.log.port import Log, OnRecord, Record
from foldlog.log.snapshots import SnapshotStore
from foldlog.subjects import Subject
from foldlog.views.fold import Fold
from foldlog.views.hot import Hot
from foldlog.views.hydration import Choose, Hydration
from foldlog.views.snapshots import Snapshots
from foldlog.views.view import View
from foldlog_projections.fold import Folded
from foldlog_projections.items import Items

_log: Final = logging.getLogger("foldlog.views")

Consistency = Literal["strong", "session", "eventual"]
CONSISTENCIES: Final = get_args(Consistency)

TRUST_SECONDS: Final = 5.0
"""How long pushes are trusted without a look at the log: a lost last push is found by then."""

DEFAULT_MAX_HOT_BYTES: Final = 256 * 1024 * 1024

S = TypeVar("S")

Source = Literal["hit", "catch-up", "hydration"]
"""How a read is answered: from memory, after asking the log for what is new, or from the log."""

OnRead = Callable[[str, Source], None]
"""Called before each read with the name of the projection, and the source."""


OnConflict = Callable[[Subject, Folded[Any]], None]
"""Called with each view that is read and holds conflicts of ids; it may raise."""


class Views:
    """The views over one log. Lives as long as its store. `on_read`, if set, hears of each read.

    Args:
        snapshots: where snapshots of long folds are. None: nowhere.
        loop: the event loop that alone may use the log; None where any may.
        max_hot_bytes: how much memory the hot views may take, by estimate; beyond it those used
            least recently go.
        live: False for a log that ends for ever where it ends now: watching ends there, and each
            read looks whether what was read before was erased since.
    """

    def __init__(
        self,
        log: Log,
        snapshots: SnapshotStore | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        max_hot_bytes: int = DEFAULT_MAX_HOT_BYTES,
        live: bool = True,
    ) -> None:
        self.live = live
        self.snapshots = Snapshots(log, snapshots) if snapshots is not None else None
        self.on_read: OnRead | None = None
        self.on_conflict: OnConflict = lambda subject, folded: None
        self.closed: bool = False
        self.followers: set[asyncio.Event] = set()
        self._log = log
        self._loop = loop
        self._hot = Hot(max_hot_bytes)
        self._relief: asyncio.Task[None] | None = None
        self._hydration = Hydration(log, self.snapshots, self._make_room)

    def use_snapshots(self, store: SnapshotStore) -> None:
        """Have views that are loaded from now on look for snapshots there."""
        self.snapshots = Snapshots(self._log, store)
        self._hydration = Hydration(self._log, self.snapshots, self._make_room)

    def __len__(self) -> int:
        return sum(1 for _ in self._hot)

    # --- who may use it -------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse a caller that the log cannot serve."""
        if self.closed:
            raise StoreClosed
        if self._loop is not None and _get_running_loop() is not self._loop:
            self.check_loop()

    def check_loop(self) -> None:
        """Refuse every event loop but the log's: what belongs to one never answers another."""
        if self._loop is not None and _get_running_loop() is not self._loop:
            raise Misuse(
                "this store belongs to another event loop, the one in which it was connected: "
                "one store per event loop, so call foldlog.connect() in this one too, or "
                "foldlog.blocking.connect() where none runs"
            )

    # --- reading --------------------------------------------------------------------------------

    async def read(
        self, projection: Kind[S], subject: Subject, consistency: Consistency
    ) -> Folded[S]:
        """Return the fold of `subject`. Use it before the next await; never change it."""
        view = await self._read(projection, subject, consistency)
        if isinstance(view.folded.state, Items) and view.folded.state.absent:
            await self.take(view, _everything)
        return view.folded

    async def select(
        self,
        projection: Kind[Items],
        subject: Subject,
        consistency: Consistency,
        choose: Choose,
    ) -> list[Recorded]:
        """Return the envelopes of a sequence that `choose` wants, and load no others.

        `choose` looks at indexes alone: a missing page has its place in them.
        """
        view = await self._read(projection, subject, consistency)
        return await self.take(view, choose)

    async def read_at(
        self, projection: Kind[S], subject: Subject, consistency: Consistency = "strong"
    ) -> tuple[Folded[S], int]:
        """Return the fold with the sequence up to which it has come.

        What is decided on the fold is compared-and-set on that sequence.
        """
        view = await self._read(projection, subject, consistency)
        if isinstance(view.folded.state, Items) and view.folded.state.absent:
            await self.take(view, _everything)
        return view.folded, view.applied

    def current(self, subject: Subject, projection: Kind[Any] | None = None) -> Folded[Any] | None:
        """The fold of `subject`, if it is hot and nothing of it is known to be missing.

        `projection`: None for that of the subject's family.
        """
        for view in self._hot.of.get(subject, ()):
            name = view.projection.family if projection is None else projection.name
            if view.projection.name == name and view.is_current(
                time.monotonic(), self._log.epoch, TRUST_SECONDS
            ):
                return view.folded
        return None

    def peek(self, projection: Kind[S], subject: Subject) -> View[S] | None:
        """The view as it is, if it is hot. Use it before the next await; never change it."""
        view = self._hot.find(projection, subject)
        return view if view is not None and view.is_hydrated else None

    def of(self, subject: Subject) -> list[View[Any]]:
        """The hot views of a subject, by whatever projections; as with `peek`."""
        return [view for view in self._hot.of.get(subject, ()) if view.is_hydrated]

    async def restored(self, projection: Kind[S], subject: Subject) -> View[S] | None:
        """Return a view as a cold read would make it of its snapshot; None if there is none.

        Raises:
            LogRewound: the log does not hold what the snapshot ends with.
        """
        view = View(projection, subject)
        return view if await self._hydration.restore(view) else None

    # --- what is known to have changed ----------------------------------------------------------

    def acked(self, subject: Subject, seq: int) -> Folded[Any] | None:
        """Have later `session` reads of `subject` see what was stored at `seq`.

        Return a fold of it that has conflicts, if one has.
        """
        conflicting: Folded[Any] | None = None
        for view in self._hot.of.get(subject, ()):
            view.acked(seq)
            if view.folded.conflicts:
                conflicting = view.folded
        return conflicting

    def unsettled(self, subject: Subject) -> None:
        """Have the next read of `subject` ask the log: an append to it may be stored or not."""
        for view in self._hot.of.get(subject, ()):
            view.unsettle(time.monotonic())

    def wake(self) -> None:
        """Have every watcher look at the log again: pushes may have been missed."""
        for view in self._hot:
            view.wake()
        for each in self.followers:
            each.set()

    @property
    def lag(self) -> int:
        """By how many sequences the view that is most behind lacks what it has heard of."""
        return max((view.known_head - view.applied for view in self._hot), default=0)

    # --- for watchers ---------------------------------------------------------------------------

    def view(self, projection: Kind[S], subject: Subject) -> View[S]:
        """The view of a subject, cold if nobody has read it yet."""
        view = self._hot.find(projection, subject)
        if view is None:
            view = View(projection, subject)
            self._hot.add(view)
        return view

    def is_current(self, view: View[Any], consistency: Consistency = "session") -> bool:
        """Whether a hydrated view answers reads of that consistency as it is."""
        eventual = consistency == "eventual"
        now, epoch = time.monotonic(), self._log.epoch
        return view.is_current(now, epoch, TRUST_SECONDS, eventual=eventual)

    def looked_since(self, projection: Kind[Any], subject: Subject, moment: float) -> bool:
        """Whether a view was read from the log since a time, by `time.monotonic()`."""
        view = self._hot.find(projection, subject)
        return view is not None and view.checked_since(moment)

    def holds(self, view: View[Any]) -> bool:
        """Whether reads are answered from that view: it was not evicted."""
        return view in self._hot.of.get(view.subject, ())

    async def refresh(self, view: View[Any], consistency: Consistency) -> None:
        """Have a view read from the log what a read that begins now is owed."""
        arrived = view.looks
        async with self._alone(view):
            if view.is_hydrated:
                is_strong = consistency == "strong"
                if view.looked > arrived if is_strong else self.is_current(view, consistency):
                    return  # what another has read in the meantime is enough
            if view.failed is not None and view.failed[0] > arrived:
                raise view.failed[1]
            view.looks = number = view.looks + 1
            try:
                if view.unfollow is None:
                    view.unfollow = await self._log.follow(view.subject, self._hints(view))
                is_weak = consistency == "eventual" and view.is_hydrated
                before, began = view.folded.count, time.monotonic()
                was_cold = not view.is_hydrated
                await self._hydration.look(view, strong=not is_weak)
                if _log.isEnabledFor(logging.DEBUG):
                    more = max(view.folded.count - before, 0)
                    _log.debug(
                        "%s of %s: %d more envelopes, up to sequence %d, in %.4f s",
                        "hydration" if was_cold else "catch-up",
                        *(view.subject.name, more, view.applied, time.monotonic() - began),
                    )
            except LogUnavailable as error:
                view.failed = number, error
                raise
            except PastErased:
                await self._cool(view)
                raise
            view.looked = number
            self._hot.touch(view)
            if self.snapshots is not None:
                self.snapshots.offer(view)

    async def look_for_none(
        self, wanted: Sequence[tuple[Kind[Any], Subject]], consistency: Consistency
    ) -> set[Subject] | None:
        """Ask the log once for the first of some views, as many as held nothing and are asked for.

        Return their subjects if it has nothing of any, and no subject otherwise: each is to be
        read. None: the first is no such view, and the log was not asked. Errors as `check`.
        """
        self.check()
        views = list[View[Any]]()
        for each in dict.fromkeys(wanted):
            view = self._hot.find(*each) or View(*each)
            is_asked = consistency == "strong" or not self.is_current(view)
            is_beside = not views or view.subject.shard == views[0].subject.shard
            if view.applied or view.readers or not (is_asked and is_beside):
                break
            views.append(view)
        if not views:
            return None
        async with AsyncExitStack() as alone:
            # Nobody reads for any of them: the locks of all are taken in one go.
            for view in views:
                if not self.holds(view):
                    self._hot.add(view)
                await alone.enter_async_context(self._alone(view))
                view.looks += 1
            for view in views:
                view.unfollow = view.unfollow or await self._log.follow(
                    view.subject, self._hints(view)
                )
            at, epoch = time.monotonic(), self._log.epoch
            for view in views:
                if epoch != view.checked_epoch:
                    view.forget_pushes()
            if not await self._log.are_absent([view.subject for view in views]):
                return set()
            for view in views:
                view.looked = view.looks
                view.checked(at, epoch)
        if self._hot.is_full:
            await self._evict(keep=views[-1])
        return {view.subject for view in views}

    async def first(
        self, projection: Kind[Items], subject: Subject, limit: int
    ) -> list[Recorded] | None:
        """Return the first envelopes of a sequence that is cold and longer, and load no others.

        None if it is to be read as a whole. Another view of the subject has to be current: it
        says how long the subject is, and since when it was not cleared.
        """
        self.check()
        other = next(filter(self.is_current, self._hot.of.get(subject, ())), None)
        if other is None or other.folded.count <= limit or other.projection.latest_only:
            return None
        if limit < 1 or self._hot.find(projection, subject) is not None:
            return None
        since, fold = other.folded.cleared_at, Fold(projection, subject)
        async with aclosing(self._log.read(subject, after=max(since - 1, 0))) as pages:
            async for records in pages:
                for record in records:
                    fold.advance(record.envelopes, record.subject)
                if fold.folded.count >= limit:
                    break
        found = fold.folded
        is_whole = found.count >= limit and not found.conflicts
        return found.state.take(range(limit)) if is_whole and found.cleared_at == since else None

    async def take(self, view: View[Any], choose: Choose) -> list[Recorded]:
        """See `Hydration.take`."""
        items: Items = view.folded.state
        ordinals = choose(view.folded)
        if not items.missing(ordinals):
            return items.take(ordinals)
        async with self._alone(view):
            found = await self._hydration.take(view, choose)
        if self._hot.is_full:
            await self._evict(keep=view)
        return found

    async def let_go(self, projection: Kind[Any], subject: Subject) -> None:
        """Forget a view that nobody reads or watches now; the next read folds it anew."""
        view = self._hot.find(projection, subject)
        if view is not None and not (view.readers or view.watchers):
            await self._cool(view)

    async def abandon(self, view: View[Any]) -> None:
        """Let go of a view that nobody got to read and nobody waits for, or that was evicted."""
        is_of_use = self.holds(view) and (view.is_hydrated or view.watchers)
        if not (is_of_use or view.readers):
            await self._release(view)

    # --- letting go -----------------------------------------------------------------------------

    async def forget(self, subject: Subject, *, overwrite: bool = True) -> None:
        """Remove the snapshots of a subject that was cleared. `overwrite`: see `Log.purge`."""
        if self.snapshots is not None:
            await self.snapshots.forget(subject, overwrite=overwrite)

    async def drop(self, which: Callable[[View[Any]], bool] | None = None) -> None:
        """Forget every view, or some of them; reads fold the log anew, as it is.

        What they held may be wrong, and no snapshot of it is written from here on. A watcher goes
        on after what it has seen last.
        """
        for view in self._hot:
            if view.is_hydrated and (which is None or which(view)):
                view.postpone()  # what is about to write its snapshot finds none due
                await self._cool(view)
                view.wake()
        if self.snapshots is not None:
            await self.snapshots.settle()

    async def drop_snapshots(self) -> None:
        if self.snapshots is not None:
            await self.snapshots.forget_all()

    async def close(self) -> None:
        """Forget everything; watchers end with StoreClosed."""
        self.closed = True
        for each in self.followers:
            each.set()
        try:
            if self._relief is not None:
                await asyncio.wait([self._relief])
            for view in self._hot:
                view.wake()
                await self._release(view)
        finally:
            if self.snapshots is not None:
                await self.snapshots.close()

    # --- private --------------------------------------------------------------------------------

    async def _read(
        self, projection: Kind[S], subject: Subject, consistency: Consistency
    ) -> View[S]:
        """The view, after a look at the log where it needs one. Errors as `check`."""
        if self.closed or (self._loop is not None and _get_running_loop() is not self._loop):
            self.check()
        view = self._hot.find(projection, subject)
        if view is not None and self.live and consistency in ("session", "eventual"):
            eventual, now = consistency == "eventual", time.monotonic()
            if view.is_current(now, self._log.epoch, TRUST_SECONDS, eventual=eventual):
                if self.on_read is not None:
                    self.on_read(projection.name, "hit")
                self._hot.touch(view)
                if view.folded.conflicts:
                    self.on_conflict(subject, view.folded)
                return view
        check_consistency(consistency)
        view = view or self.view(projection, subject)
        if self.on_read is not None:
            self.on_read(projection.name, "catch-up" if view.is_hydrated else "hydration")
        await self.refresh(view, consistency if self.live else "strong")
        self._hot.touch(view)
        if self._hot.is_full:
            await self._evict(keep=view)
        if view.folded.conflicts:
            self.on_conflict(subject, view.folded)
        return view

    @asynccontextmanager
    async def _alone(self, view: View[Any]) -> AsyncIterator[None]:
        """Be the only one who reads the log for a view."""
        view.readers += 1
        lock = view.lock = view.lock or asyncio.Lock()
        try:
            async with lock:
                yield
        finally:
            view.readers -= 1
            if not view.readers:
                view.lock = None  # a log in memory serves one event loop after another
            self._hot.weigh(view)
            await self.abandon(view)

    def _hints(self, of: View[Any]) -> OnRecord:
        projection, subject = of.projection, of.subject

        def hint(record: Record) -> None:
            view = self._hot.find(projection, subject)
            if view is None:
                return
            if not view.looked and not view.readers:
                view.acked(record.seq)  # it was evicted, and is watched
                return
            view.hint(record, self._log.epoch)
            is_full = self._hot.weigh(view)
            if self.snapshots is not None:
                self.snapshots.offer(view)
            if is_full and (self._relief is None or self._relief.done()):
                relief = self._evict(keep=None)
                self._relief = asyncio.get_running_loop().create_task(relief, name="foldlog evict")

        return hint

    async def _make_room(self, view: View[Any]) -> None:
        """While a view is loaded: no other large one stays beside it."""
        if self._hot.is_large(view):
            await self._evict(keep=view)

    async def _evict(self, keep: View[Any] | None) -> None:
        while (view := self._hot.surplus(keep)) is not None:
            await self._cool(view)

    async def _cool(self, view: View[Any]) -> None:
        """Let go of a view's fold; its watchers still hear when there is more."""
        if self.snapshots is not None:
            self.snapshots.withdraw(view)
        if not view.watchers:
            await self._release(view)
        elif self._hot.remove(view):
            cold = self.view(view.projection, view.subject)
            cold.watchers, cold.known_head = view.watchers, view.known_head
            cold.unfollow, view.unfollow = view.unfollow, None

    async def _release(self, view: View[Any]) -> None:
        self._hot.remove(view)
        if view.unfollow is not None:
            unfollow, view.unfollow = view.unfollow, None
            await unfollow()


def check_consistency(consistency: Consistency) -> None:
    """Raises ConfigurationError: there is no such consistency."""
    if consistency not in CONSISTENCIES:
        known = ", ".join(CONSISTENCIES)
        raise ConfigurationError(f"consistency is one of {known}, not {consistency!r}")


def _everything(folded: Folded[Items]) -> range:
    return range(len(folded.state))
