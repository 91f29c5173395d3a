"""The list of sessions: who runs, waits, failed or finished, and what was last heard of each.

It keeps summaries, and makes them again for sessions that have grown. With thousands of sessions, a
request makes as many as its time allows, and says that some are missing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from foldlog.kind import Key
from foldlog.models import Waiting
from foldlog.opening import Store
from foldlog.position import LogPosition
from foldlog.store.core import core_of
from foldlog.store.ownership import lineage_of, session_kinds
from foldlog.store.primitives import Item
from foldlog.store.removal import session_sizes
from foldlog.ui.run import place_of
from foldlog.words import Line

_AT_ONCE: Final = 32
_SOME: Final = 10
"""Records of a view that are looked at for a title and for the last words."""

_SOME_BYTES: Final = 256 * 1024

STATUSES: Final = (*("waiting", "running", "failed", "pending", "cancelled", "finished", "open"),)


class Summary(msgspec.Struct, omit_defaults=False):
    """A session in the list. Times in Unix seconds, by the log's clock.

    `status`: "waiting" for a person, else "running", "failed", "pending", "cancelled" or "finished"
    as its tasks are, "open" if it has none. `tasks` counts them by status.
    """

    id: str
    status: str
    title: str
    last: str
    last_activity: float
    records: int
    tasks: dict[str, int]

    def has(self, text: str) -> bool:
        """Whether its id, title or last words contain a text, in small letters."""
        return any(text in each.lower() for each in (self.id, self.title, self.last))


class Catalogue:
    """All sessions of a store, as they were last seen."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, Summary] = {}
        self._sizes: dict[str, int] = {}
        self._seen_at: LogPosition | None = None
        self._lock = asyncio.Lock()

    async def page(
        self, *, text: str, status: str, offset: int, limit: int, seconds: float = 1.0
    ) -> dict[str, Any]:
        """Return a page of the sessions that match, the latest activity first.

        Args:
            seconds: how long summaries may be made for; `complete` says whether all are.

        Errors as `Store.sessions`.
        """
        async with self._lock:
            complete = await self._refresh(asyncio.get_running_loop().time() + seconds)
            waiting = await self._store.waiting(limit=1000)
        shown = [self._shown(each, waiting) for each in self._known.values()]
        found = [s for s in shown if s.has(text.lower()) and status in ("", s.status)]
        found.sort(key=lambda s: (-s.last_activity, s.id))
        return {
            "sessions": found[offset : offset + limit],
            "total": len(found),
            "statuses": dict(Counter(each.status for each in shown)),
            "waiting": len(waiting),
            "complete": complete,
        }

    async def about(self, session_id: str) -> dict[str, Any]:
        """Return one session: its summary, its origin, its forks and its traces, as of now."""
        core = core_of(self._store)
        summary = await self._summary(session_id, (await session_sizes(core)).get(session_id, 0))
        waiting = await self._store.waiting(session_id=session_id)
        lineage = await lineage_of(core, session_id)
        origin = lineage.origin
        return {
            "session": self._shown(summary, waiting),
            "origin": origin and {"session": origin.session_id, "position": origin.position},
            "forks": list(lineage.forks),
            "traces": await self._store.list_traces(session_id, limit=1000),
            "position": str(await self._store.position()),
        }

    def _shown(self, summary: Summary, waiting: Iterable[Waiting]) -> Summary:
        if any(each.session_id == summary.id for each in waiting):
            return msgspec.structs.replace(summary, status="waiting")
        return summary

    async def _refresh(self, end: float) -> bool:
        now = await self._store.position()
        if now != self._seen_at:
            self._sizes = await session_sizes(core_of(self._store))
            self._seen_at = now
            self._known = {id: s for id, s in self._known.items() if id in self._sizes}
        stale = [
            id
            for id, size in self._sizes.items()
            if (known := self._known.get(id)) is None or known.records != size
        ]
        for start in range(0, len(stale), _AT_ONCE):
            some = stale[start : start + _AT_ONCE]
            made = await asyncio.gather(*(self._summary(id, self._sizes[id]) for id in some))
            self._known |= {each.id: each for each in made}
            if asyncio.get_running_loop().time() > end and start + _AT_ONCE < len(stale):
                return False
        return True

    async def title(self, session_id: str) -> str:
        """Return what a session is about: what its user said first, or what its run is for."""
        views, _ = await self._told(session_id)
        return await self._title(views)

    async def _told(self, id: str) -> tuple[list[Key[Any]], list[tuple[Key[Any], Item]]]:
        """The views that may give a session its title, and its newest records, in order."""
        core = core_of(self._store)
        first = [kind for kind in session_kinds(core) if kind.shown.titles]
        views = [kind(id) for kind in first]
        newest = await self._items(views, newest_first=True)
        if not newest:
            others = [kind(id) for kind in session_kinds(core) if kind not in first]
            traces = await self._store.list_traces(id, limit=1000)
            some = dict.fromkeys([*traces[-1:], *traces[:1]])  # the first one, and the last
            views = [kind(trace) for trace in some for kind in core.kinds_of("trace")]
            newest = await self._items([*others, *views], newest_first=True)
        newest.sort(key=lambda each: place_of(each[1]))
        return views, newest

    async def _summary(self, id: str, size: int) -> Summary:
        views, newest = await self._told(id)
        tasks = Counter(str(task.status) for task in await self._store.list_tasks(id))
        title = await self._title(views)
        lines = [key.line(item) for key, item in newest]
        return Summary(
            id=id,
            status=_status(tasks),
            title=title,
            last=_last(lines, title),
            last_activity=newest[-1][1].recorded_at if newest else 0.0,
            records=size,
            tasks=dict(tasks),
        )

    async def _items(
        self, views: Sequence[Key[Any]], *, newest_first: bool = False
    ) -> list[tuple[Key[Any], Item]]:
        """Some records of each view, from one end."""
        pages = await asyncio.gather(
            *(
                self._store.items(
                    key, limit=_SOME, max_bytes=_SOME_BYTES, newest_first=newest_first
                )
                for key in views
            )
        )
        return [(key, item) for key, page in zip(views, pages, strict=True) for item in page]

    async def _title(self, views: Sequence[Key[Any]]) -> str:
        """What the first records say that give a title; else the first words on record."""
        found = await self._items([key for key in views if key.kind.shown.titles])
        titles = (key.title(item) for key, item in found)
        lines = (key.line(item) for key, item in found)
        words = (line.text or line.what for line in lines)
        return next(filter(None, titles), "") or next(
            (each for each in words if not each.startswith(("{", "["))), ""
        )


def _last(lines: Sequence[Line], title: str) -> str:
    """What was said last, if possible something else than the title."""
    said = [each.text for each in lines if each.text not in ("", title)]
    return said[-1] if said else str(lines[-1]) if lines else ""


def _status(tasks: Counter[str]) -> str:
    for status, shown in (
        ("PAUSED", "waiting"),
        ("RUNNING", "running"),
        ("FAILED", "failed"),
        ("PENDING", "pending"),
        ("CANCELLED", "cancelled"),
    ):
        if tasks[status]:
            return shown
    return "finished" if tasks else "open"
