"""Feeds: what the log has of a session, and what a run says, as streams that are only read."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, Final

from foldlog.bounds import Refused
from foldlog.kind import Key, Kind
from foldlog.kinds import tasks
from foldlog.opening import Store
from foldlog.position import LogPosition
from foldlog.store.core import core_of
from foldlog.store.subscribing import LogItem
from foldlog.streams.deciding import JSON
from foldlog.streams.keeping import PAGE, PAGE_BYTES, Look, Source
from foldlog.streams.waking import Wakes
from foldlog.ui.plain import CUT, encode
from foldlog.ui.run import Record, Run, read_page
from foldlog_projections.runs import said
from foldlog_projections.streams import ZERO

FEEDS: Final = "feeds"

_SHARD: Final = re.compile(r"([0-9]{16})\.([0-9]{6})(~[0-9a-f]{8})?")
_WHOLE: Final = 999_999
_ENDED: Final = frozenset({"COMPLETE", "FAILED", "CANCELLED"})


class Feeds:
    """The feeds of a store, by their paths. An offset is a position of the log."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs = Wakes(store, ("said", "tasks"), _run_of)
        kinds = core_of(store).kinds
        self._sessions = Wakes(store, None, lambda item: _owner_of(kinds[item.kind], item.keys))

    def at(self, path: str, kinds: Collection[str]) -> Source:
        """The feed at a path, of records of some kinds, or all. Raises Refused: there is none."""
        match path.split("/")[1:]:
            case ["sessions", session] if session:
                look = partial(self._session, session, kinds)
                return Source(FEEDS, JSON, look, partial(self._sessions.listening, session))
            case ["runs", session, run] | ["runs", run as session] if session and run:
                listening = partial(self._runs.listening, (session, run))
                return Source(FEEDS, JSON, partial(self._said, session, run), listening)
        raise Refused(404, "there are /feeds/sessions/SESSION and /feeds/runs/SESSION/RUN")

    async def _session(self, session: str, kinds: Collection[str], after: str | None) -> Look:
        views = await Run("session", session).views(self._store)
        self._sessions.consists(session, {_owner_of(*key) for key in views} - {session})
        some = [key for key in views if not kinds or key.kind.name in kinds]
        return await self._page(some, after, lambda record: record)

    async def _said(self, session: str, run: str, after: str | None) -> Look:
        ended = await self._store.view(
            tasks(session), lambda saved: saved.get(run), consistency="strong"
        )  # what it said before is there by then
        found = await self._page(
            [said.kind(session, run)], after, lambda record: record["record"]["data"], cut=None
        )
        has_ended = ended is not None and tasks.decode(ended).status in _ENDED
        return found._replace(is_closed=found.is_whole and has_ended)

    async def _page(
        self,
        views: Sequence[Key[Any]],
        after: str | None,
        shown: Callable[[Record], Any],
        cut: int | None = CUT,
    ) -> Look:
        if after is None:
            return Look([], offset_of(await self._store.position()), True, False)
        behind = None if after == ZERO else parsed(after)
        page = await read_page(
            self._store, views, behind, limit=PAGE, max_bytes=PAGE_BYTES, cut=cut
        )
        found = [encode(shown(each)) for each in page.records]
        return Look(found, offset_of(page.position), not page.more, False)


def _run_of(item: LogItem) -> tuple[str, ...]:
    """The run that has said a record, or whose task it changes."""
    task_id = getattr(item.record, "task_id", None)
    return (*item.keys, task_id) if task_id else item.keys


def _owner_of(kind: Kind[Any], keys: tuple[str, ...]) -> str:
    """The session whose a view is; or what it is of, a trace for instance."""
    return kind.session_of(keys) or keys[0]


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
