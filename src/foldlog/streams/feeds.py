"""Feeds: what the log has of a session, and what a run says, as streams that are only read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from foldlog.bounds import Refused
from foldlog.kind import Key
from foldlog.kinds import tasks
from foldlog.opening import Store
from foldlog.position import LogPosition
from foldlog.streams.deciding import JSON
from foldlog.streams.keeping import PAGE, PAGE_BYTES, Look
from foldlog.streams.waking import Wakes
from foldlog.ui.following import Hub
from foldlog.ui.plain import CUT, encode
from foldlog.ui.run import Run, read_page
from foldlog_projections.runs import said
from foldlog_projections.streams import ZERO

FEEDS: Final = "feeds"

_SHARD: Final = re.compile(r"([0-9]{16})\.([0-9]{6})(~[0-9a-f]{8})?")
_WHOLE: Final = 999_999
_ENDED: Final = frozenset({"COMPLETE", "FAILED", "CANCELLED"})


class Feeds:
    """The feeds of a store, by their paths."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.hub: Hub = Hub(store)
        self.wakes: Wakes = Wakes(store, ("said", "tasks"))

    def at(self, path: str, kinds: Collection[str]) -> Feed:
        """The feed at a path, of records of some kinds, or all. Raises Refused: there is none."""
        match path.split("/")[1:]:
            case ["sessions", session] if session:
                return Feed(self, session, None, kinds)
            case ["runs", *_, session, run] | ["runs", run as session] if session and run:
                return Feed(self, session, run, kinds)
        raise Refused(404, "there are /feeds/sessions/SESSION and /feeds/runs/SESSION/RUN")


class Feed:
    """One feed. An offset is a position of the log."""

    id: str = FEEDS
    content_type: str = JSON

    def __init__(self, feeds: Feeds, session: str, run: str | None, kinds: Collection[str]) -> None:
        self._feeds = feeds
        self._session = session
        self._run = run
        self._kinds = kinds

    async def look(self, after: str | None) -> Look:
        """As `Streams.look`."""
        store, position = self._feeds.store, None if after in (None, ZERO) else parsed(after)
        if after is None:
            return Look([], offset_of(await store.position()), True, await self._has_ended())
        has_ended = await self._has_ended()  # what it said before is there by then
        if self._run is None:
            run, views, cut = Run("session", self._session), list[Key[Any]](), CUT
            for key in await run.views(store):
                if not self._kinds or key.kind.name in self._kinds:
                    views.append(key)
        else:
            views, cut = [said.kind(self._session, self._run)], None
        page = await read_page(store, views, position, limit=PAGE, max_bytes=PAGE_BYTES, cut=cut)
        is_whole, records = not page.more, page.records
        found = [encode(each["record"]["data"] if self._run else each) for each in records]
        return Look(found, offset_of(page.position), is_whole, is_whole and has_ended)

    async def _has_ended(self) -> bool:
        if self._run is None:
            return False
        key, run = tasks(self._session), self._run
        find = self._feeds.store.view
        task = await find(key, lambda saved: saved.get(run), consistency="strong")
        return task is not None and tasks.decode(task).status in _ENDED

    def listening(self) -> AbstractAsyncContextManager[asyncio.Event]:
        """As `Wakes.listening`."""
        if self._run is not None:
            return self._feeds.wakes.listening((self._session, self._run))
        return self._following()

    @asynccontextmanager
    async def _following(self) -> AsyncIterator[asyncio.Event]:
        wake = asyncio.Event()
        async with self._feeds.hub.follow(Run("session", self._session)) as (outbox, _):

            async def drain() -> None:
                while await outbox.get() is not None:
                    wake.set()

            draining = asyncio.create_task(drain(), name="foldlog feed")
            try:
                yield wake
            finally:
                draining.cancel()
                await asyncio.gather(draining, return_exceptions=True)


def offset_of(position: LogPosition) -> str:
    """A position as an offset: a later one is a greater text."""
    return "_".join(
        f"{each.seq:016d}.{_WHOLE if each.index is None else each.index:06d}"
        f"{each.mark and '~' + each.mark}"
        for each in position.shards
    )


def parsed(offset: str) -> LogPosition:
    """The position that an offset says. Raises Refused: it says none."""
    found = [_SHARD.fullmatch(shard) for shard in offset.split("_")]
    if None in found:
        raise Refused(400, "offset: it is none of this feed")
    text = "@" + offset.replace("_", ",").replace(f".{_WHOLE:06d}", "")
    return LogPosition.parse(text)
