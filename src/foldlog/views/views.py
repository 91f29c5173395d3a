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
from collections import OrderedDict
from collections.abc import AsyncGenerator
from typing import Any, Final, Literal, TypeVar, get_args

from foldlog.envelope import Position, Recorded
from foldlog.errors import ConfigurationError, LogUnavailable, StoreClosed
from foldlog.log.port import Log, OnRecord, Record
from foldlog.subjects import Subject
from foldlog.views.view import View, continues, precedes
from foldlog_projections.fold import Folded, Projection

Consistency = Literal["strong", "session", "eventual"]
CONSISTENCIES: Final = get_args(Consistency)

TRUST_SECONDS: Final = 5.0
"""How long pushes are trusted without a look at the log: a lost last push is found by then."""

DEFAULT_MAX_HOT_BYTES: Final = 256 * 1024 * 1024

S = TypeVar("S")

_log: Final = logging.getLogger("foldlog")


class Views:
    """The views over one log. Lives as long as its store."""

    def __init__(self, log: Log, *, max_hot_bytes: int = DEFAULT_MAX_HOT_BYTES) -> None:
        self._log = log
        self._max_hot_bytes = max_hot_bytes
        self._hot: OrderedDict[Subject, View[Any]] = OrderedDict()
        self._hot_bytes = 0
        self.closed = False

    def __len__(self) -> int:
        return len(self._hot)

    async def read(
        self, projection: Projection[S], subject: Subject, consistency: Consistency
    ) -> Folded[S]:
        """Return the fold of `subject`. Use it before the next await; never change it.

        Raises:
            LogUnavailable, LogCorrupt: the log could not be read as far as was asked for.
        """
        return (await self._read(projection, subject, consistency)).folded

    async def read_at(self, projection: Projection[S], subject: Subject) -> tuple[Folded[S], int]:
        """Read strongly; return the fold with the sequence up to which it has come.

        What is decided on the fold is compared-and-set on that sequence. Errors as `read`.
        """
        view = await self._read(projection, subject, "strong")
        return view.folded, view.applied

    def hot(self, subject: Subject) -> Folded[Any] | None:
        """The fold of `subject` as it stands, if it is hot."""
        view = self._hot.get(subject)
        return view.folded if view is not None and view.is_hydrated else None

    def acked(self, subject: Subject, seq: int) -> None:
        """Have later `session` reads of `subject` see what was stored at `seq`."""
        view = self._hot.get(subject)
        if view is not None:
            view.acked(seq)

    def wake(self) -> None:
        """Have every watcher look at the log again: pushes may have been missed."""
        for view in self._hot.values():
            view.wake()

    async def watch(
        self, projection: Projection[list[Recorded]], subject: Subject, since_id: str | None
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
        try:
            await self._bring_up(view, wake, force=True)
            seen = view.folded.seen
            position = seen[since_id] + 1 if since_id in seen else 0
            while True:
                while position < len(view.folded.state) and view.folded.seen is seen:
                    position += 1
                    yield view.folded.state[position - 1]
                if view.folded.seen is not seen:  # the subject was cleared
                    seen, position = view.folded.seen, 0
                    continue
                woken = await _woken(wake, TRUST_SECONDS)
                await self._bring_up(view, wake, force=not woken)
        finally:
            view.watchers.discard(wake)
            await self._abandon(view)

    async def drop(self) -> None:
        """Forget every view that nobody watches; the next reads fold the log anew."""
        for view in list(self._hot.values()):
            if view.is_hydrated and not view.watchers:
                await self._release(view)

    async def close(self) -> None:
        """Forget everything; watchers end with StoreClosed."""
        self.closed = True
        for view in list(self._hot.values()):
            view.wake()
            await self._release(view)

    def _is_current(self, view: View[Any], consistency: Consistency = "session") -> bool:
        is_current = view.is_trusted if consistency == "eventual" else view.is_current
        return is_current(time.monotonic(), self._log.epoch, TRUST_SECONDS)

    def _view(self, projection: Projection[S], subject: Subject) -> View[S]:
        if self.closed:
            raise StoreClosed
        view = self._hot.get(subject)
        if view is None:
            view = self._hot[subject] = View(projection, subject, self._account)
        self._hot.move_to_end(subject)
        return view

    def _account(self, growth: int) -> None:
        self._hot_bytes += growth

    async def _read(
        self, projection: Projection[S], subject: Subject, consistency: Consistency
    ) -> View[S]:
        if consistency not in CONSISTENCIES:
            known = ", ".join(CONSISTENCIES)
            raise ConfigurationError(f"consistency is one of {known}, not {consistency!r}")
        view = self._view(projection, subject)
        if not view.is_hydrated:
            await self._hydrate(view)
        elif consistency == "strong" or not self._is_current(view, consistency):
            await self._catch_up(view, strong=consistency != "eventual")
        if self._hot_bytes > self._max_hot_bytes:
            await self._evict(keep=view)
        return view

    async def _hydrate(self, view: View[Any]) -> None:
        """Load a cold view; concurrent readers of it share the first one's load."""
        view.loaders += 1
        try:
            while view.hydrated is not None and not view.hydrated.done():
                # Not the future itself: one reader's cancellation must not become another's.
                await asyncio.wait([view.hydrated])
            if view.hydrated is None:
                await self._load(view)
            else:
                # What another has loaded may be older than this read.
                await self._catch_up(view)
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
            await self._catch_up(view)
        except BaseException:
            view.hydrated = None
            raise
        finally:
            loading.set_result(None)

    def _hints(self, view: View[Any]) -> OnRecord:
        return lambda record: view.hint(record, self._log.epoch)

    async def _catch_up(self, view: View[Any], *, strong: bool = True) -> None:
        """Read the log from where the view stands to the head, as of now."""
        heard, at, epoch = view.known_head, time.monotonic(), self._log.epoch
        view.enter(epoch)
        if view.projection.latest_only:
            ground = view.ground  # before the await: pushes go on meanwhile
            record = await self._log.last(view.subject, strong=strong)
            if strong and ground is not None and not precedes(ground, record):
                self._notice_rewind(view, ground)
            view.apply([record] if record is not None else [])
        else:
            if strong and view.ground is not None and epoch != view.checked_epoch:
                # Since pushes may have been missed, the log may have been restored or replaced:
                # what this view has applied last must still be there.
                await self._check_ground(view, view.ground)
            async for records in self._log.read(view.subject, after=view.applied, strong=strong):
                view.apply(records)
        view.checked(at, epoch)
        if strong and view.applied < heard == view.known_head:
            # It was purged after we had heard of it: the log's head is the truth.
            view.known_head = view.applied

    async def _check_ground(self, view: View[Any], ground: Position) -> None:
        first: Record | None = None
        async for records in self._log.read(view.subject, after=ground.seq - 1):
            first = first or records[0]
        if not continues(ground, first):
            self._notice_rewind(view, ground)

    def _notice_rewind(self, view: View[Any], ground: Position) -> None:
        if view.ground != ground:
            return  # another reader has found out, and begun anew
        _log.warning(
            "%s no longer holds sequence %d as it was read before: the log was restored or "
            "replaced; folding it anew",
            view.subject.name,
            ground.seq,
        )
        view.reset()

    async def _bring_up(self, view: View[Any], wake: asyncio.Event, *, force: bool) -> None:
        """Bring a watched view up to date, for as long as it takes until the log is there."""
        while not self.closed:
            try:
                if not view.is_hydrated:
                    await self._hydrate(view)
                elif force or not self._is_current(view):
                    await self._catch_up(view)
            except LogUnavailable as error:
                _log.info("watching %s: %s; waiting for the log", view.subject.name, error)
                await _woken(wake, TRUST_SECONDS)
                force = True
            else:
                return
        raise StoreClosed

    async def _evict(self, keep: View[Any]) -> None:
        for view in list(self._hot.values()):
            if self._hot_bytes <= self._max_hot_bytes:
                return
            if view is not keep and view.is_hydrated and not view.watchers:
                await self._release(view)

    async def _release(self, view: View[Any]) -> None:
        if self._hot.pop(view.subject, None) is None:
            return
        self._account(-view.bytes)
        view.detach()
        if view.unfollow is not None:
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
