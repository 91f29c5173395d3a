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

from foldlog import kinds
from foldlog.kind import Key
from foldlog.models import Waiting
from foldlog.opening import Store
from foldlog.position import LogPosition
from foldlog.store.core import core_of
from foldlog.store.ownership import session_kinds
from foldlog.store.primitives import Item
from foldlog.ui.plain import Plain
from foldlog.ui.run import trace_named

_AT_ONCE: Final = 32
_FIRST: Final = ("updates", "tasks", "steering", "messages")
"""Kinds that tell of most sessions. The others are read where these hold nothing."""

_TEXT: Final = 200
_SPANS: Final = 10
"""Spans of a trace that are looked at for words: those around others often have none."""

STATUSES: Final = ("waiting", "running", "failed", "pending", "finished", "open")


class Summary(msgspec.Struct, omit_defaults=False):
    """A session in the list. Times in Unix seconds, by the log's clock.

    `status`: "waiting" for a person, else "running", "failed", "pending" or "finished" as its
    tasks are, "open" if it has none. `tasks` counts them by status.
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

    async def one(self, session_id: str) -> Summary:
        """Return the summary of one session, as of now."""
        sizes = await self._store.list_session_sizes()
        made = await self._summary(session_id, sizes.get(session_id, 0))
        return self._shown(made, await self._store.waiting(session_id=session_id))

    def _shown(self, summary: Summary, waiting: Iterable[Waiting]) -> Summary:
        if any(each.session_id == summary.id for each in waiting):
            return msgspec.structs.replace(summary, status="waiting")
        return summary

    async def _refresh(self, end: float) -> bool:
        now = await self._store.position()
        if now != self._seen_at:
            self._sizes = await self._store.list_session_sizes()
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

    async def _summary(self, id: str, size: int) -> Summary:
        found = {kind.name: kind for kind in session_kinds(core_of(self._store))}
        first = [found.pop(name)(id) for name in _FIRST if name in found]
        newest = await self._newest(first)
        if not newest:
            newest = await self._newest([kind(id) for kind in found.values()])
            listed = {trace for item in newest if (trace := trace_named(item)) is not None}
            spans = await self._newest([kinds.events(trace) for trace in listed], _SPANS)
            newest = spans or newest
        states: dict[str, Any] = await self._store.view(kinds.tasks(id))
        tasks = Counter(str(task.status) for task in states.values())
        newest.sort(key=lambda item: item.recorded_at)
        last = newest[-1] if newest else None
        said = [item for item in newest if not item.type.startswith("task.")]
        said.sort(key=lambda item: _tells(item, "output"))
        return Summary(
            id=id,
            status=_status(tasks),
            title=_title(list(states.values())) or await self._said_first(id),
            last=gist(said[-1]) if said else "",
            last_activity=last.recorded_at if last else 0.0,
            records=size,
            tasks=dict(tasks),
        )

    async def _newest(self, views: Sequence[Key[Any]], limit: int = 1) -> list[Item]:
        pages = await asyncio.gather(
            *(self._store.items(key, limit=limit, newest_first=True) for key in views)
        )
        return [item for page in pages for item in reversed(page)]

    async def _said_first(self, id: str) -> str:
        """The first thing on record that is a text: what a session without tasks is about."""
        for name in ("messages", "steering", "updates"):
            if name in core_of(self._store).kinds:
                for item in await self._store.items(core_of(self._store).kinds[name](id), limit=1):
                    return gist(item)
        for listed in await self._store.items(kinds.traces(id), limit=1):
            key = kinds.events(listed.record.trace_id)
            found = await self._store.items(key, limit=_SPANS)
            for item in sorted(found, key=lambda item: not _tells(item, "input")):
                return gist(item, "input")
        return ""


def _status(tasks: Counter[str]) -> str:
    for status, shown in (
        ("PAUSED", "waiting"),
        ("RUNNING", "running"),
        ("FAILED", "failed"),
        ("PENDING", "pending"),
    ):
        if tasks[status]:
            return shown
    return "finished" if tasks else "open"


def _title(tasks: Sequence[Any]) -> str:
    for task in tasks:
        asked = task.context_snapshot
        query = asked.get("query") if isinstance(asked, dict) else None
        for text in (task.description, query):
            if isinstance(text, str) and text:
                return text[:_TEXT]
    return ""


def gist(item: Item, of_span: str = "output") -> str:
    """What a record says, on a line: its first text, or its type.

    Args:
        of_span: where a span of an instrumented agent has its last words.
    """
    record = item.record
    if (span := _span(item)) is not None:
        said = span[of_span][-1] if _tells(item, of_span) else span.get("name", "")
        return " ".join(_first_text(Plain(_TEXT).value(said)).split())[:_TEXT]
    for name in ("body", "content", "payload", "result", "description", "error"):
        text = _first_text(Plain(_TEXT).value(getattr(record, name, None)))
        if text:
            return " ".join(text.split())[:_TEXT]
    status = getattr(record, "status", None)
    return status if isinstance(status, str) else item.type


def _span(item: Item) -> dict[str, Any] | None:
    payload = getattr(item.record, "payload", None)
    return payload if isinstance(payload, dict) and "mapping" in payload else None


def _tells(item: Item, name: str) -> bool:
    """Whether a record tells something, as all but spans without content do."""
    span = _span(item)
    return span is None or (isinstance(span.get(name), list) and bool(span[name]))


def _first_text(value: Any, depth: int = 4) -> str:
    if isinstance(value, str):
        return value
    if depth and isinstance(value, dict):
        names = ("text", "content", "instruction", "parts", "reason", "status")
        named = [value.get(name) for name in names]
        calls = [f"{value['name']}(…)"] if isinstance(value.get("name"), str) else []
        return next(filter(None, (_first_text(each, depth - 1) for each in [*named, *calls])), "")
    if depth and isinstance(value, list):
        return next(filter(None, (_first_text(each, depth - 1) for each in value)), "")
    return ""
