"""Followers of a run share one reader: each record is read and encoded once, however many look.

Records are sent as they arrive. Views of one run may arrive out of order, so what is sent has no
position to resume at until a strong read has confirmed that nothing before it is missing; then one
message has `id:`. A page that reconnects there may get records again, and its fold drops them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from foldlog.bounds import Outbox
from foldlog.errors import FoldlogError
from foldlog.kind import Key
from foldlog.opening import Store
from foldlog.position import LogPosition
from foldlog.store.core import core_of
from foldlog.ui.plain import encode
from foldlog.ui.run import Run, Shown, merged, placed, shown

GATHER_SECONDS: Final = 0.06
"""A busy run is sent in batches of what came in this time; the first record goes at once."""

CONFIRM_SECONDS: Final = 1.0
"""How often a busy run says where a reconnect resumes."""

_CONFIRMED: Final = 512
"""Records that are looked for at once where no push may have brought them."""

_log: Final = logging.getLogger("foldlog")


def message(records: object, position: LogPosition | None = None) -> bytes:
    """A server-sent event: records, and where to resume once these have arrived."""
    id = b"" if position is None else f"id: {position}\n".encode()
    return b"%sdata: %s\n\n" % (id, encode(records))


class Hub:
    """The runs that are followed, each by one reader, which ends with its last follower."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[Run, _Following] = {}
        self.reading: asyncio.Lock = asyncio.Lock()
        """Held by who reads what there is, so that those who follow do not wait for all of them."""

    @asynccontextmanager
    async def follow(self, run: Run) -> AsyncIterator[tuple[Outbox, list[Key[Any]]]]:
        """Receive what is saved to a run from now on; None when it cannot be followed any more.

        With the views that it is read from now.
        """
        following = self._runs.get(run)
        if following is None or following.task.done():
            following = self._runs[run] = _Following(self._store, run)
        outbox = Outbox()
        following.outboxes.add(outbox)
        try:
            await following.started()
            yield outbox, following.views
        finally:
            following.outboxes.discard(outbox)
            if not following.outboxes:
                if self._runs.get(run) is following:
                    del self._runs[run]
                await following.end()


class _Following:
    """One run that is followed. Owned by its followers: the last one ends it."""

    def __init__(self, store: Store, run: Run) -> None:
        self.outboxes: set[Outbox] = set()
        self._store = store
        self._run = run
        self._views: dict[Key[Any], LogPosition | None] = {}
        self._found: list[Shown] = []
        self._traces: set[str] = set()
        self._wake = asyncio.Event()
        self._started = asyncio.Event()
        self.task = asyncio.create_task(self._follow(), name=f"follow {run.kind} {run.id}")

    @property
    def views(self) -> list[Key[Any]]:
        """The views that are watched."""
        return list(self._views)

    async def started(self) -> None:
        """Return when whatever is saved from then on will be received."""
        waiting = asyncio.create_task(self._started.wait())
        try:
            await asyncio.wait({waiting, self.task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def end(self) -> None:
        """Stop reading."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _follow(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                await self._look_for_views(group, is_first=True)
                self._started.set()
                await self._send_all(group)
        except* _Cleared:
            pass
        except* FoldlogError as errors:
            _log.info("following %s %s ended: %s", self._run.kind, self._run.id, errors.exceptions)
        finally:
            self._started.set()
            for outbox in self.outboxes:
                outbox.end()

    async def _look_for_views(self, group: asyncio.TaskGroup, *, is_first: bool = False) -> None:
        """Watch the run's views: at first from now on, and those that come later from the first
        record."""
        for key in await self._run.views(self._store):
            if key not in self._views:
                self._views[key] = None
                last = None
                if is_first:
                    newest = await self._store.items(key, limit=1, newest_first=True)
                    last = newest[0] if newest else None
                    self._views[key] = last.position if last else None
                group.create_task(self._watch(key, last.id if last else None))
                group.create_task(self._end_when_cleared(key))

    async def _watch(self, key: Key[Any], after: str | None) -> None:
        async with aclosing(self._store.watch(key, after=after)) as items:
            async for item in items:
                self._found.append(shown(key, item))
                self._wake.set()

    async def _end_when_cleared(self, key: Key[Any]) -> None:
        """End once a view no longer begins as it did: a reader that reconnects gets the new one."""
        first = None
        async with aclosing(core_of(self._store).advances(key)) as advances:
            async for _ in advances:
                before, first = first, await first_of(self._store, key)
                if before not in (None, first):
                    raise _Cleared
                await asyncio.sleep(GATHER_SECONDS)  # a busy view advances with each save

    async def _send_all(self, group: asyncio.TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        confirmed = await self._store.position()
        is_confirmed, next_confirmation = True, 0.0
        while True:
            wait = None if is_confirmed else max(next_confirmation - loop.time(), 0)
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
            except TimeoutError:
                await self._look_for_views(group)  # of a run that has begun, nothing tells
                confirmed = await self._confirm(confirmed)
                is_confirmed = not self._found
                next_confirmation = loop.time() + CONFIRM_SECONDS
                continue
            self._wake.clear()
            is_confirmed = False
            if self._send(confirmed):
                await self._look_for_views(group)
            await asyncio.sleep(GATHER_SECONDS)

    def _send(self, base: LogPosition, *, resume_at: LogPosition | None = None) -> bool:
        """Send what was found. Return whether it tells of views that are not watched yet."""
        found, self._found = sorted(self._found, key=lambda each: each.place), []
        is_news = False
        for each in found:
            before = self._views.get(each.key)
            if before is None or before < each.position:
                self._views[each.key] = each.position
            is_news |= each.trace is not None and each.trace not in self._traces
            is_news |= each.key.kind.owns is not None
            if each.trace is not None:
                self._traces.add(each.trace)
        records, _ = placed(found, base)
        if records or resume_at is not None:
            data = message(records, resume_at)
            for outbox in self.outboxes:
                outbox.put(data)
        return is_news

    async def _confirm(self, base: LogPosition) -> LogPosition:
        """Read what no push has brought, up to now, and tell followers that they have it all."""
        head = await self._store.position()
        behind = {key: reached or base for key, reached in self._views.items()}
        missing = list[Shown]()
        async with aclosing(merged(self._store, behind, head, shown)) as coming:
            async for each in coming:
                if len(missing) == _CONFIRMED:
                    return base  # far behind: the watchers bring it
                missing.append(each)
        self._found += [each for each in missing if each not in self._found]
        self._send(base, resume_at=head)
        return head


class _Cleared(Exception):
    """Records that followers have are gone."""


async def first_of(store: Store, key: Key[Any]) -> str | None:
    """Return the id of a view's first record, None if there is none. Errors as `Store.items`."""
    items = await store.items(key, limit=1)
    return items[0].id if items else None
