"""What waits for a person: one list over all sessions, and one way to answer.

The list holds ids. Each names its source, which says what is asked, and which alone decides. What
begins to wait is listed by the append that makes it wait.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol, Self
from urllib.parse import quote, unquote

from foldlog.batches import in_batches
from foldlog.envelope import Draft
from foldlog.errors import (
    AppendFailed,
    AppendUnknown,
    InvalidId,
    LogUnavailable,
    PastErased,
)
from foldlog.kind import Key, Kind
from foldlog.log.port import Append
from foldlog.models import Answered, Waiting, WaitingKind
from foldlog.store.core import Capability, Core
from foldlog.store.operation import operation
from foldlog.store.payloads import encode
from foldlog.store.primitives import checked_cursor, checked_limit
from foldlog.subjects import Subject, checked_id
from foldlog.views import Consistency, watching
from foldlog_projections import waiting

_log: Final = logging.getLogger("foldlog")

_RETRY_SECONDS: Final = 1.0
_EXAMPLE: Final = "question/trip-1/step-2/19ab3f52c10"

_AT_ONCE: Final = 64
"""Sources that are read side by side."""


_KEYS: Final = {
    WaitingKind.PAUSE: (1,),
    WaitingKind.PATCH: (2,),
    WaitingKind.TASK: (2,),
    WaitingKind.QUESTION: (2, 3),
    WaitingKind.STEP: (3,),
}
"""How many keys name what waits."""

_Listed = dict[str, str | None]


class Ref(NamedTuple):
    """What an id says: where something waits, and since when, in Unix seconds.

    With the time, an answer to an earlier question never decides a later one at the same place.
    """

    kind: WaitingKind
    keys: tuple[str, ...]
    since: float

    @property
    def id(self) -> str:
        """`patch/trip-1/fares/19ab3f52c10`: kind, keys, milliseconds."""
        keys = (quote(key, safe=":", errors="strict") for key in self.keys)
        return "/".join((self.kind, *keys, f"{round(self.since * 1000):x}"))

    @classmethod
    def at(cls, kind: WaitingKind, since: float | str, *keys: str) -> Self:
        """What waits there since a time: Unix seconds, or ISO 8601."""
        if isinstance(since, str):
            since = dt.datetime.fromisoformat(since).timestamp()
        return cls(kind, keys, round(since * 1000) / 1000)

    @classmethod
    def of(cls, id: str) -> Self:
        """What an id says."""
        parts = checked_id(id).split("/")
        try:
            kind = WaitingKind(parts[0])
            keys = [unquote(part, errors="strict") for part in parts[1:-1]]
            if len(keys) not in _KEYS[kind]:
                raise ValueError(id)
            return cls(kind, tuple(keys), int(parts[-1], 16) / 1000)
        except (ValueError, OverflowError):
            raise InvalidId("id", id, f"store.waiting() gives ids, as {_EXAMPLE}") from None

    @property
    def since_time(self) -> dt.datetime:
        """Since when, in UTC."""
        return dt.datetime.fromtimestamp(self.since, dt.UTC)


class Settled(NamedTuple):
    """What a person says of a step that nobody knew of: that it happened, with this result."""

    happened: bool
    result: Any = None


class Source(Protocol):
    """Where things of one kind wait."""

    async def look(self, ref: Ref) -> Waiting | None:
        """What waits there now, strongly consistent; None, if it does not, or has expired."""

    async def answer(self, ref: Ref, answer: Any, by: str) -> Answered:
        """Decide about it, once; `by` is who does, "" if unknown. Errors as `Inbox.answer`."""


class Inbox(Capability):
    """What waits for a person, over all sessions."""

    def _source(self, ref: Ref) -> Source:
        """Where something waits."""
        raise NotImplementedError

    @operation(list)
    async def waiting(
        self, *, session_id: str | None = None, after: str | None = None, limit: int = 500
    ) -> list[Waiting]:
        """Return a page of what waits for a person, oldest first. Every acked write counts.

        Args:
            session_id: only what goes with that session. None: all sessions.
            after: the id of an item: the page begins behind it, even if it waits no more. None:
                with the oldest.
            limit: how many items at most.

        Raises:
            InvalidId, PayloadError: `after` is no id of an item, or `limit` no integer.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.

        Examples:
            >>> await store.save_planner_state("t1", {"reason": "approve"}, session_id="trip")
            >>> [(each.kind.value, each.session_id) for each in await store.waiting()]
            [('pause', 'trip')]
        """
        checked_limit(limit)
        checked_cursor(after, "after")
        behind = None if after is None else _place(Ref.of(after).id)
        listed = await self._listed("strong", session_id)
        ids = sorted((id for id in listed if behind is None or _place(id) > behind), key=_place)
        found: list[Waiting] = []
        for some in in_batches(ids, _AT_ONCE):
            if len(found) >= limit:
                break
            found += await self._look(some, listed, session_id)
        return found[:limit]

    async def watch_waiting(self, *, session_id: str | None = None) -> AsyncGenerator[Waiting]:
        """Yield what waits for a person, oldest first, then whatever begins to wait.

        It waits out an outage of the log. What was answered before its turn is left out. It ends
        with StoreClosed when the store is closed.

        Args:
            session_id: only what goes with that session. None: all sessions.

        Raises:
            LogCorrupt, StoreClosed: the log cannot be read, or is closed.
        """
        yielded = set[str]()
        lists = [self._core.subject(key.kind, *key.keys) for key in _lists(self._core)]
        advances = watching.advances(self._core.hot_views, waiting.kind, *lists)
        async with aclosing(advances) as changes:
            async for _ in changes:
                listed = await self._listed("session", session_id)
                new = sorted(listed.keys() - yielded, key=_place)
                yielded = set(listed)
                for id in new:  # one by one: who is handed an item may take long
                    for item in await self._look_patiently([id], listed, session_id):
                        yield item

    @operation(writes=True)
    async def answer(self, id: str, answer: Any = True, *, by: str = "") -> Answered:
        """Answer what waits. Of all callers, in any process, exactly one decides.

        Args:
            id: the `id` of an item of `waiting`.
            answer: for a question, the value that its run gets. For a patch or a task, True to
                approve or False to reject: the patch is applied or dropped, the task goes on or is
                cancelled. For a step, True if it happened and False if not. For a pause it is not
                used: the pause is consumed, and its state returned for you to go on from. A
                framework's request is answered where its `asked["answer_in"]` says.
            by: who answers, for the record; the store checks no identity.

        Returns:
            What was decided, and a consumed pause's state.

        Raises:
            AlreadyAnswered: somebody else was first; it says what was decided.
            WaitingExpired: the item has expired.
            NotWaiting: nothing of that id ever waited, or its session was removed.
            Misuse: it is a framework's request. It waits on; the message says where to answer.
            InvalidId, PayloadError, RedactionFailed: the id or the answer was refused.
            MergeRefused: the context has changed since the patch was proposed.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: the answer may have been stored; answering again is safe.

        Examples:
            >>> await store.save_planner_state("t1", {"reason": "approve"}, session_id="trip")
            >>> [item] = await store.waiting()
            >>> (await store.answer(item.id)).state
            {'reason': 'approve'}
            >>> await store.waiting()
            []
        """
        ref = Ref.of(id)
        return await self._source(ref).answer(ref, answer, by)

    @operation(writes=True)
    async def confirm(self, id: str, result: Any = None, *, by: str = "") -> Answered:
        """Say that a step whose outcome nobody knew has happened, so that its run goes on.

        Args:
            id: the `id` of an item of `waiting`, of the kind "step".
            result: what the step returned, as the run is to have it.
            by: who says so, for the record.

        Returns:
            What was decided: "confirmed".

        Raises:
            AlreadyAnswered: somebody else was first; it says what was decided.
            NotWaiting: nothing of that id ever waited, or its session was removed.
            InvalidId, PayloadError, RedactionFailed: the id or the result was refused.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; confirming again is safe.
        """
        return await self.answer(id, Settled(True, result), by=by)

    @operation(writes=True)
    async def retract(self, id: str, *, by: str = "") -> Answered:
        """Say that a step whose outcome nobody knew has not happened, so that its run does it.

        Args:
            id: the `id` of an item of `waiting`, of the kind "step".
            by: who says so, for the record.

        Returns:
            What was decided: "retracted".

        Raises:
            AlreadyAnswered: somebody else was first; it says what was decided.
            NotWaiting: nothing of that id ever waited, or its session was removed.
            InvalidId, PayloadError: the id was refused.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; retracting again is safe.
        """
        return await self.answer(id, Settled(False), by=by)

    async def _listed(self, consistency: Consistency, session_id: str | None) -> _Listed:
        """The ids that are listed, and the session that each goes with."""
        core = self._core
        folds = await asyncio.gather(
            *(core.read(key.kind, *key.keys, consistency=consistency) for key in _lists(core))
        )
        return {
            id: owner
            for folded in folds
            for id, owner in folded.state.items()
            if session_id in (None, owner)
        }

    async def _look(
        self, ids: Sequence[str], listed: _Listed, session_id: str | None
    ) -> list[Waiting]:
        """Those that wait; what waits no more is taken off the list."""
        refs = [Ref.of(id) for id in ids]
        looked = await asyncio.gather(*(self._look_at(ref, session_id) for ref in refs))
        over = [ref for ref, item in zip(refs, looked, strict=True) if item is None]
        if over and not self._core.reads_only:
            await take_off(self._core, over)
        found = [item for item in looked if item is not None]
        return [replace(each, session_id=listed[each.id] or each.session_id) for each in found]

    async def _look_at(self, ref: Ref, session_id: str | None) -> Waiting | None:
        try:
            return await self._source(ref).look(ref)
        except PastErased:
            if session_id is not None:
                raise
            return None  # a list of the past, of all sessions, leaves out what was removed since

    async def _look_patiently(
        self, ids: Sequence[str], listed: _Listed, session_id: str | None
    ) -> list[Waiting]:
        """As `_look`, however long the log is away."""
        while True:
            try:
                return await self._look(ids, listed, session_id)
            except LogUnavailable as error:
                _log.info("watching what waits: %s; waiting for the log", error)
                await asyncio.sleep(_RETRY_SECONDS)


def began(ref: Ref, session_id: str | None = None) -> Draft:
    """The record that lists what begins to wait; `session_id` is the session it goes with."""
    return encode(waiting.kind, waiting.Began(ref.id, session_id))


def ended(*refs: Ref) -> Draft:
    """The record that takes what waits no more off the list."""
    return encode(waiting.kind, waiting.Ended(tuple(ref.id for ref in refs)))


def on_list(core: Core, shard: int, draft: Draft) -> tuple[Subject, list[Draft]]:
    """One of these records with the subject of the shard's list: what `append_drafts` takes."""
    key = list_key(core, shard)
    return core.subject(key.kind, *key.keys), [draft]


def text_in(fields: Any, name: str) -> str | None:
    """A text that a mapping of the user's holds under a name; None if it does not."""
    value = fields.get(name) if isinstance(fields, Mapping) else None
    return value if isinstance(value, str) else None


async def take_off(core: Core, over: Iterable[Ref]) -> None:
    """Take what waits no more off the lists. Where that fails, the next reader does it."""
    by_shard: dict[int, list[Ref]] = {}
    for ref in over:
        by_shard.setdefault(core.subject(waiting.kind, ref.keys[0]).shard, []).append(ref)
    for shard, refs in by_shard.items():
        subject, drafts = on_list(core, shard, ended(*refs))
        try:
            await core.append_at_once([Append(subject, tuple(drafts))])
        except (AppendFailed, AppendUnknown, LogUnavailable) as error:
            _log.debug("the list of what waits was not tidied: %s", error)


def list_key(core: Core, shard: int, kind: Kind[Any] = waiting.kind) -> Key[Any]:
    """The list of a shard: of what waits for a person, or of another kind that has one a shard."""
    return kind(core.namespace.key_on(shard, kind.name))


def _lists(core: Core) -> list[Key[dict[str, str | None]]]:
    return [list_key(core, shard) for shard in range(core.namespace.shards)]


def _place(id: str) -> tuple[int, str]:
    """Where an id stands in the list: by time."""
    return int(id.rpartition("/")[2], 16), id
