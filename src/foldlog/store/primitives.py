"""The primitives: append, decide, view, items, keys and watch, for every kind alike.

The built-in capabilities, the facades and every adapter are made of these; they are public, for
kinds of users' own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeVar, overload

import msgspec

from foldlog.batches import side_by_side
from foldlog.envelope import Draft, Recorded
from foldlog.errors import (
    NotFound,
    PayloadError,
    shown,
)
from foldlog.kind import Key, Kind
from foldlog.position import LogPosition, Reach, mark_of
from foldlog.store.belonging import add_belongings, append_of_session, owner_entered
from foldlog.store.core import DECIDE_SECONDS
from foldlog.store.decisions import At, Attempts, Decided, Decisions, Stored, decide_drafts
from foldlog.store.operation import nothing, operation, overloaded
from foldlog.store.payloads import drafting
from foldlog.store.restoring import FAULTS, unreadable
from foldlog.views import Choose, Consistency, watching
from foldlog_projections.fold import Folded, copied
from foldlog_projections.folds import all_records
from foldlog_projections.items import PAGE, Items

S = TypeVar("S")
T = TypeVar("T")

_NOTHING: Final = Reach(0)


class Item(NamedTuple):
    """One record of a view, in log order.

    Attributes:
        id: its idempotency key, and a cursor for `items` and `watch`.
        type: the record's type, as the kind declares it.
        record: the record itself.
        ts: the writer's clock, in Unix seconds.
        recorded_at: the log's clock, in Unix seconds.
        position: where it stands: `store.at(position)` is the store right after it. With several
            shards it includes nothing of the others.
        writer: the store that appended it.
        number: counts that store's records: of two records of one writer, the greater came later.
    """

    id: str
    type: str
    record: Any
    ts: float
    recorded_at: float
    position: LogPosition
    writer: str
    number: int


class Primitives(Decisions):
    """What a store does with records of any kind."""

    @operation(nothing, writes=True)
    async def append(self, key: Key[Any], *records: msgspec.Struct) -> None:
        """Append records to one view, in order, all of them or none.

        A repeat of a record that the view has had has no effect; the kind's id rule makes the id.
        Inside `store.atomic()` they are appended with the block.

        Args:
            key: the view: `kind(*keys)`.
            records: records of the kind.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            IdTaken: the view has another record of that id. If it is not in memory, its next read
                raises this, and the record has no effect.
            ConfigurationError: the store does not know the kind.

        Examples:
            >>> class Cost(msgspec.Struct):
            ...     euros: float
            >>> costs = foldlog.Kind(
            ...     "costs", keys=("trip",), records={"cost.added": Cost}, fold=foldlog.every
            ... )
            >>> store = foldlog.memory_store(kinds=[costs])
            >>> await store.append(costs("oslo"), Cost(120.0), Cost(80.0))
            >>> sum(each.euros for each in await store.view(costs("oslo")))
            200.0
        """
        saved = self._core.subject_of(key), self._drafted("append", key, records)
        await append_of_session(self._core, owner_entered(key), key, saved)

    @overload
    async def decide(
        self,
        key: Key[S],
        decision: Callable[[S], Sequence[msgspec.Struct] | None],
        *,
        copy: bool = ...,
        timeout: float = ...,
    ) -> Sequence[msgspec.Struct]: ...

    @overload
    async def decide(
        self,
        key: Sequence[Key[Any]],
        decision: Callable[..., Mapping[Key[Any], Sequence[msgspec.Struct]] | None],
        *,
        copy: bool = ...,
        timeout: float = ...,
    ) -> Mapping[Key[Any], Sequence[msgspec.Struct]]: ...

    @overloaded
    async def decide(
        self,
        key: Any,
        decision: Callable[..., Any],
        *,
        copy: bool = True,
        timeout: float = DECIDE_SECONDS,
    ) -> Any:
        """Append what a function decides on the current state. Of all callers, one decides first.

        The store reads the view strongly, calls `decision(state)`, and appends the records that it
        returns if nobody has written to the view since; otherwise it begins again with the new
        state. The function may run several times and must change nothing. No decision is spooled.

        Inside `store.atomic()` the function sees what the block has saved to the view. Its records
        are appended with the block, which raises AppendConflict if others wrote meanwhile.

        Args:
            key: one view; or several of one shard, whose states are the arguments of `decision`,
                which then returns a mapping of keys to records. A key that gets no record may
                change meanwhile; a key that is not among these gets its records at its end.
            decision: returns records; none, or None, to append nothing. What it raises is raised.
            copy: whether the function is given copies. False is for large states: the function
                reads the fold's state itself, changes nothing in it, and returns nothing of it.
            timeout: seconds until a decision that other writers prevent is given up.

        Returns:
            What `decision` returned and was appended.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendConflict: others wrote to the view until the time was up. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; read before you try again.
            IdTaken: the view has another record of that id. Nothing was stored.
            ConfigurationError: the store does not know the kind.
            Misuse: the views are on several shards.

        Examples:
            >>> class Taken(msgspec.Struct):
            ...     by: str
            >>> seats = foldlog.Kind(
            ...     "seats", keys=("flight",), records={"seat.taken": Taken}, fold=foldlog.every
            ... )
            >>> store = foldlog.memory_store(kinds=[seats])
            >>> def take(seats_taken):
            ...     return [Taken("ann")] if len(seats_taken) < 1 else None
            >>> [len(await store.decide(seats("SK1"), take)) for _ in range(2)]
            [1, 0]
        """
        seen = self._copied if copy else lambda _, at: at.folded.state
        for each in [key] if isinstance(key, Key) else key:
            await add_belongings(self._core, owner_entered(each), each)
        if isinstance(key, Key):
            one = await decide_drafts(
                self._core,
                [key],
                lambda at: {key: self._decided(key, decision(seen(key.kind, at)))},
                timeout=timeout,
            )
            return one[key].value if key in one else ()

        def decide_many(*all_at: At) -> dict[Key[Any], Decided]:
            states = [seen(k.kind, at) for k, at in zip(key, all_at, strict=True)]
            found = decision(*states) or {}
            return {each: self._decided(each, records) for each, records in found.items()}

        many = await decide_drafts(self._core, list(key), decide_many, timeout=timeout)
        return {each: stored.value for each, stored in many.items()}

    @overload
    async def view(self, key: Key[Any], *, consistency: Consistency = ...) -> Any: ...

    @overload
    async def view(
        self, key: Key[S], select: Callable[[S], T], *, consistency: Consistency = ...
    ) -> T: ...

    @overloaded
    async def view(
        self,
        key: Key[Any],
        select: Callable[[Any], Any] | None = None,
        *,
        consistency: Consistency = "session",
    ) -> Any:
        """Return the state of one view, as a copy that you may change; or what a function finds.

        Of a kind that folds `every` record it is a list of them; of `last` it is a record or None.
        Otherwise it is what the kind's fold makes. A view in which nothing was saved is what the
        fold begins with.

        Args:
            key: the view: `kind(*keys)`.
            select: called once with the fold's state, which is not copied; its result is returned.
                It changes nothing, and returns nothing that the fold changes later. What it raises
                is raised.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            ConfigurationError: the store does not know the kind.

        Examples:
            >>> await store.view(foldlog.kinds.updates("trip"))
            []
            >>> await store.view(foldlog.kinds.updates("trip"), len)
            0
        """
        folded = await self._core.hot_views.read(key.kind, self._core.subject_of(key), consistency)
        return self._copied(key.kind, At(folded, 0)) if select is None else select(folded.state)

    def peek(self, key: Key[S], select: Callable[[S], T]) -> T | None:
        """Return what a function finds in the state in memory, at once; None if there is none.

        Nothing is read or awaited. It is None if the view is not in memory, or lacks a record that
        this store knows to have been appended. Other writers' records may still be on their way,
        and what an open `store.atomic()` block saves does not show.

        Args:
            key: the view: `kind(*keys)`.
            select: called once with the fold's state. It changes nothing, and returns nothing that
                the fold changes later. What it raises is raised.

        Raises:
            ConfigurationError: the store does not know the kind.
            InvalidId: a key is empty.
        """
        folded = self._core.hot_views.current(self._core.subject_of(key), key.kind)
        return None if folded is None else select(folded.state)

    @operation()
    async def views(
        self, keys: Sequence[Key[Any]], *, consistency: Consistency = "session"
    ) -> list[Any]:
        """Return the states of many views, in order, as copies. The store reads them side by side.

        Args:
            keys: the views: `kind(*keys)` each.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            ConfigurationError: the store does not know a kind.
        """
        return await side_by_side(keys, lambda key: self.view(key, consistency=consistency))

    @operation()
    async def items(
        self,
        key: Key[Any],
        *,
        after: str | LogPosition | None = None,
        limit: int = 500,
        max_bytes: int | None = None,
        newest_first: bool = False,
        consistency: Consistency = "session",
    ) -> list[Item]:
        """Return a page of the records of a view, with their ids, times and positions.

        Args:
            key: the view: `kind(*keys)`.
            after: the id of an item, or a position: the page begins behind it, in the page's
                direction. None: the page begins at the oldest record, or with `newest_first` at the
                newest.
            limit: how many records at most; below 1, none.
            max_bytes: bytes at most of the records as they are stored. The first record comes
                whatever it has, so that paging ends. None: any number.
            newest_first: read from the newest record to the oldest.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty. NotFound: the view has had no record of the id `after`.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: `after` is no cursor, or `limit` no integer.
            ConfigurationError: the store does not know the kind.

        Examples:
            >>> await store.save_memory_state("acme:ann:trip", {"n": 1})
            >>> [item.type for item in await store.items(foldlog.kinds.memory("acme:ann:trip"))]
            ['memory.saved']
        """
        checked_limit(limit)
        if isinstance(after, LogPosition):
            behind = await self._items_behind(key, after, limit, newest_first, consistency)
            return self._items_of(key, _within(behind, max_bytes))
        checked_cursor(after, "after")

        def choose(folded: Any) -> Sequence[int]:
            count = len(folded.state)
            at = folded.seen.get(after) if after is not None else None
            if at is None and after is not None:
                raise NotFound("record", after, f"{key} has had none of that id")
            if limit < 1:
                return range(0)
            if newest_first:
                end = count if at is None else at
                return range(max(end - limit, 0), end)
            start = 0 if at is None else at + 1
            return range(start, min(start + limit, count))

        kind, subject = _sequence_of(key.kind), self._core.subject_of(key)
        views = self._core.hot_views
        if after is None and not newest_first and consistency != "strong":
            first = await views.first(kind, subject, limit)
            if first is not None:
                return self._items_of(key, _within(first, max_bytes))
        try:
            found = await views.select(kind, subject, consistency, choose)
        except NotFound:  # the view may only lag
            found = await views.select(kind, subject, "strong", choose)
        if newest_first:
            found = found[::-1]
        return self._items_of(key, _within(found, max_bytes))

    async def _items_behind(
        self,
        key: Key[Any],
        after: LogPosition,
        limit: int,
        newest_first: bool,
        consistency: Consistency,
    ) -> list[Recorded]:
        """A page behind a position: the pages of the view around it are read, and then cut."""
        subject = self._core.subject_of(key)
        shards = self._core.namespace.shards
        if len(after.shards) != shards:
            raise PayloadError("after", f"{after} is of another number of shards than {shards}")
        reach = after.shards[subject.shard]

        def choose(folded: Any) -> Sequence[int]:
            state: Items = folded.state
            begin = max(bisect_left(state.marks, reach.seq) - 1, 0) * PAGE
            end = bisect_right(state.marks, reach.seq) * PAGE
            if newest_first:
                return range(max(begin - limit, 0), min(end, len(state)))
            return range(begin, min(end + limit, len(state)))

        if limit < 1:
            return []
        kind = _sequence_of(key.kind)
        found = await self._core.hot_views.select(kind, subject, consistency, choose)
        if newest_first:
            behind = [each for each in found if (each.seq, each.index) < reach.place][::-1]
        else:
            behind = [each for each in found if (each.seq, each.index) > reach.place]
        return behind[:limit]

    @operation()
    async def keys(self, kind: Kind[Any], prefix: Sequence[str] = ()) -> list[Key[Any]]:
        """Return the views of a kind that records were saved in, sorted by key.

        Cleared ones are among them. It is for operators: its cost grows with the number of the
        kind's views.

        Args:
            kind: the kind.
            prefix: only views whose keys begin with these.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return await self._core.keys(kind, prefix)

    async def watch(self, key: Key[Any], *, after: str | None = None) -> AsyncGenerator[Item]:
        """Yield the records of a view in log order, then each new one, without gap or repeat.

        It survives lost connections. It ends with StoreClosed when the store is closed.

        Args:
            key: the view: `kind(*keys)`.
            after: the id of an item to begin behind. None: with the first.

        Raises:
            InvalidId: an id is empty. NotFound: the view has had no record of the id `after`.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            PayloadError: `after` is no string.
            ConfigurationError: the store does not know the kind.
        """
        kind = _sequence_of(key.kind)
        checked_cursor(after, "after")
        async with aclosing(
            watching.watch(self._core.hot_views, kind, self._core.subject_of(key), after)
        ) as records:
            async for each in records:
                yield self._items_of(key, [each])[0]

    # --- records ----------------------------------------------------------------------------------

    @drafting("record")
    def _drafted(
        self, method: str, key: Key[Any], records: Sequence[msgspec.Struct]
    ) -> list[Draft]:
        self._core.subject_of(key)
        if key.kind.of is not None:
            raise PayloadError(key.kind.name, f"append to {key.kind.of.name}, which it folds")
        return [self._core.drafted(method, key, each) for each in records]

    def _decided(self, key: Key[Any], records: Sequence[msgspec.Struct] | None) -> Decided:
        found = () if records is None else tuple(records)
        return Decided(self._drafted("decide", key, found), found)

    def _copied(self, kind: Kind[Any], at: At) -> Any:
        """A view's state as its caller's own, with records in place of envelopes."""
        state = at.folded.state
        if isinstance(state, Items):
            return [decoded(kind, each) for each in state]
        if isinstance(state, Recorded):
            return decoded(kind, state)
        found = copied(kind, state)
        if isinstance(found, dict):
            return {
                key: decoded(kind, each) if isinstance(each, Recorded) else each
                for key, each in found.items()
            }
        return found

    def _items_of(self, key: Key[Any], found: Sequence[Recorded]) -> list[Item]:
        shard, shards = self._core.subject_of(key).shard, self._core.namespace.shards
        before, behind = (_NOTHING,) * shard, (_NOTHING,) * (shards - shard - 1)
        return [
            Item(
                each.id,
                each.type,
                decoded(key.kind, each),
                each.ts,
                each.recorded_at,
                LogPosition((*before, Reach(each.seq, each.index, mark_of(each.id)), *behind)),
                each.writer,
                each.n,
            )
            for each in found
        ]


def decoded(kind: Kind[Any], envelope: Recorded) -> Any:
    """Decode the record of an envelope, or raise LogCorrupt."""
    try:
        return kind.decode(envelope)
    except FAULTS as fault:
        raise unreadable(envelope, fault) from fault


def _sequence_of(kind: Kind[Any]) -> Kind[Items]:
    """The kind itself if it keeps every record; else a view beside it that does."""
    return kind if isinstance(kind.initial(), Items) else all_records(kind)


def page(*, since_id: str | None, limit: int, task_id: str | None = None) -> Choose:
    """Return what chooses the ordinals that a cursor asks for; with `task_id`, of that task alone.

    After a known `since_id`: the first `limit` of them, so that paging loses nothing. Without
    one, or with one that was never seen: the last `limit` of them. The cursor counts in the
    order of the whole sequence, also for one task. A `limit` below 1 asks for nothing.
    """
    checked_limit(limit)
    checked_cursor(since_id)
    checked_cursor(task_id, "task_id")

    def choose(folded: Folded[Items]) -> Sequence[int]:
        if limit < 1:
            return range(0)
        # Every envelope that was applied was appended, so an id's ordinal is its place.
        since = None if since_id is None else folded.seen.get(since_id)
        if since is None:
            return folded.state.latest(limit, task_id)
        return folded.state.after(since, limit, task_id)

    return choose


def _within(found: list[Recorded], max_bytes: int | None) -> list[Recorded]:
    """The first of some envelopes, up to a number of bytes, and one at least."""
    if max_bytes is None:
        return found
    sizes = accumulate(len(each.payload) for each in found)
    return found[: max(sum(size <= max_bytes for size in sizes), 1)]


def checked_cursor(since_id: str | None, field: str = "since_id") -> str | None:
    """Return a cursor, or another id that may be missing, as it is."""
    if since_id is not None and not isinstance(since_id, str):
        raise PayloadError(field, f"{shown(since_id)} is not an id")
    return since_id


def checked_limit(limit: int) -> int:
    """Return a limit as it is."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise PayloadError("limit", f"{shown(limit)} is not a number of items")
    return limit


__all__ = ["At", "Attempts", "Decided", "Item", "Primitives", "Stored"]
