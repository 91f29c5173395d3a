"""The primitives: append, decide, view, items, keys and watch, for every kind alike.

The built-in capabilities, the facades and every adapter are made of these; they are public, for
kinds of users' own.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple, TypeVar, overload

import msgspec

from foldlog.envelope import Draft, Recorded
from foldlog.errors import (
    ConfigurationError,
    LogCorrupt,
    PayloadError,
    shown,
)
from foldlog.kind import Key, Kind
from foldlog.store.core import DECIDE_SECONDS
from foldlog.store.cursor import checked_cursor, checked_limit
from foldlog.store.decisions import At, Attempts, Decided, Decisions, Stored
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import drafting
from foldlog.views import Consistency, watching
from foldlog_projections.folds import AllRecords
from foldlog_projections.items import Items

S = TypeVar("S")

_VIEWS_AT_ONCE: Final = 64


class Item(NamedTuple):
    """One record of a view, in log order.

    `id` is its idempotency key and a cursor for `items` and `watch`; `ts` the writer's clock and
    `recorded_at` the log's, in Unix seconds; `type` and `record` as the kind declares them.
    """

    id: str
    type: str
    record: Any
    ts: float
    recorded_at: float


class Primitives(Decisions):
    """What a store does with records of any kind."""

    @operation(nothing, writes=True)
    async def append(self, key: Key[Any], *records: msgspec.Struct) -> None:
        """Append records to one view, in order, all of them or none.

        A record whose id the view has seen has no effect; the kind's id rule makes the id. Inside
        `store.atomic()` they are appended with the block.

        Raises:
            PayloadError: the kind has no such records, or a part cannot be held.
            InvalidId: a key or an id is empty. RedactionFailed: see `connect(redact=)`. In each
                case nothing was appended.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`. Appending again is
                safe.
        """
        subject = self._subject(key)
        await self.append_drafts((subject, self._drafted("append", key, records)))

    @overload
    async def decide(
        self,
        key: Key[S],
        decision: Callable[[S], Sequence[msgspec.Struct] | None],
        *,
        timeout: float = ...,
    ) -> Sequence[msgspec.Struct]: ...

    @overload
    async def decide(
        self,
        key: Sequence[Key[Any]],
        decision: Callable[..., Mapping[Key[Any], Sequence[msgspec.Struct]] | None],
        *,
        timeout: float = ...,
    ) -> Mapping[Key[Any], Sequence[msgspec.Struct]]: ...

    async def decide(
        self, key: Any, decision: Callable[..., Any], *, timeout: float = DECIDE_SECONDS
    ) -> Any:
        """Append what a function decides on the current state; of all callers, one decides first.

        Reads the view strongly, calls `decision(state)`, and appends the records that it returns
        if nobody has written to the view since; otherwise it begins again with the new state. So
        the function may be called several times and must change nothing. Never through the spool.

        Inside `store.atomic()` it decides on the view with what the block has saved to it, and is
        appended with the block, which raises AppendConflict if others wrote to the view meanwhile.

        Args:
            key: one view; or several of one shard, whose states are the arguments of `decision`,
                which then returns a mapping of keys to records. A key that gets no record is not
                held to be unchanged.
            decision: returns records; none, or None, to append nothing. What it raises is raised.
            timeout: seconds after which a decision that others keep from being made is given up.

        Returns:
            What `decision` returned and was appended.

        Raises:
            AppendConflict: others wrote all the time; it carries `expected` and `actual`.
            AppendUnknown: the outcome could not be settled within `timeout`.
            Others as `append`, and as `view`.
        """
        if isinstance(key, Key):
            one = await self.decide_drafts(
                [key],
                lambda at: {key: self._decided(key, decision(self._copied(key.kind, at)))},
                timeout=timeout,
            )
            return one[key].value if key in one else ()

        def decide_many(*all_at: At) -> dict[Key[Any], Decided]:
            states = [self._copied(k.kind, at) for k, at in zip(key, all_at, strict=True)]
            found = decision(*states) or {}
            return {each: self._decided(each, records) for each, records in found.items()}

        many = await self.decide_drafts(list(key), decide_many, timeout=timeout)
        return {each: stored.value for each, stored in many.items()}

    async def view(
        self, key: Key[S] | str, *keys: str, consistency: Consistency = "session"
    ) -> Any:
        """Return the state of one view: a copy, which is the caller's.

        Of `every` record: a list of them. Of the `last` one: it, or None. Otherwise what the
        kind's fold makes. A view of which nothing was saved is what the fold begins with.

        Args:
            key: `kind(*keys)`; or a kind's name, followed by its keys.

        Raises:
            ConfigurationError: the store has no kind of that name. InvalidId: a key is empty.
            LogUnavailable, LogCorrupt: the log could not be read as far as was asked for, or the
                fold failed on what it holds.
        """
        if isinstance(key, str):
            key = self.kind(key)(*keys)
        folded = await self.hot_views.read(key.kind, self._subject(key), consistency)
        return self._copied(key.kind, At(folded, 0))

    async def views(
        self, keys: Sequence[Key[Any]], *, consistency: Consistency = "session"
    ) -> list[Any]:
        """Return the states of many views, in order, reading them side by side. As `view`."""
        found: list[Any] = []
        for start in range(0, len(keys), _VIEWS_AT_ONCE):
            some = keys[start : start + _VIEWS_AT_ONCE]
            found += await asyncio.gather(
                *(self.view(each, consistency=consistency) for each in some)
            )
        return found

    async def items(
        self,
        key: Key[Any],
        *,
        after: str | None = None,
        limit: int = 500,
        newest_first: bool = False,
        consistency: Consistency = "session",
    ) -> list[Item]:
        """Return a page of the records of a view.

        Args:
            after: the id of an item: the page begins behind it, in the page's direction. None, or
                an id that was never seen: the page begins at the oldest record, or the newest.
            limit: how many at most.
            newest_first: from the newest to the oldest.

        Raises:
            PayloadError: `after` or `limit` is none. Others as `view`.
        """
        checked_limit(limit)
        checked_cursor(after, "after")

        def choose(folded: Any) -> Sequence[int]:
            count = len(folded.state)
            at = folded.seen.get(after) if after is not None else None
            if limit < 1:
                return range(0)
            if newest_first:
                end = count if at is None else at
                return range(max(end - limit, 0), end)
            start = 0 if at is None else at + 1
            return range(start, min(start + limit, count))

        kind = _sequence_of(key.kind)
        found = await self.hot_views.select(kind, self._subject(key), consistency, choose)
        if newest_first:
            found = found[::-1]
        return [self._item(key.kind, each) for each in found]

    async def keys(self, kind: Kind[Any], prefix: Sequence[str] = ()) -> list[Key[Any]]:
        """Return the views of a kind that hold records, sorted by key.

        For operators: its cost grows with the number of the kind's views.

        Args:
            prefix: only keys that begin with these.

        Raises:
            LogUnavailable, LogCorrupt: the log could not be read.
        """
        subjects = await self.forked_log.subjects(kind.family)
        wanted = tuple(prefix)
        found = {each.keys for each in subjects if each.keys[: len(wanted)] == wanted}
        return [Key(kind, keys) for keys in sorted(found)]

    async def watch(self, key: Key[Any], *, after: str | None = None) -> AsyncGenerator[Item]:
        """Yield the records of a view in log order, then each new one, without gap or repeat.

        It outlives lost connections. It ends when the store is closed (StoreClosed), or when the
        caller closes it.

        Args:
            after: the id of an item to begin behind; None or an unknown one: from the first.

        Raises:
            LogCorrupt: the log cannot be read any further.
        """
        kind = _sequence_of(key.kind)
        checked_cursor(after, "after")
        async with aclosing(
            watching.watch(self.hot_views, kind, self._subject(key), after)
        ) as records:
            async for each in records:
                yield self._item(key.kind, each)

    def advances(self, key: Key[Any]) -> AsyncGenerator[int]:
        """Yield the sequence that a view has come to: now, and whenever it has come further.

        Errors and end as `watch`.
        """
        return watching.advances(self.hot_views, key.kind, self._subject(key))

    def kind(self, name: str) -> Kind[Any]:
        """The kind of that name.

        Raises:
            ConfigurationError: the store has none.
        """
        found = self.kinds.get(name)
        if found is None:
            raise ConfigurationError(
                f"no kind {shown(name)}; there are {', '.join(sorted(self.kinds))}"
            )
        return found

    # --- records ----------------------------------------------------------------------------------

    def _subject(self, key: Key[Any]) -> Any:
        if self.kinds.get(key.kind.name) is not key.kind:
            raise ConfigurationError(
                f"this store does not know {key.kind!r}: open it with kinds=[...]"
            )
        return self._log.namespace.subject(key.kind.family, *key.keys)

    @drafting("record")
    def _drafted(
        self, method: str, key: Key[Any], records: Sequence[msgspec.Struct]
    ) -> list[Draft]:
        self._subject(key)  # refuses an unknown kind
        if key.kind.of is not None:
            raise PayloadError(key.kind.name, f"append to {key.kind.of.name}, which it folds")
        return [self.drafted(method, key, each) for each in records]

    def _decided(self, key: Key[Any], records: Sequence[msgspec.Struct] | None) -> Decided:
        found = () if records is None else tuple(records)
        return Decided(self._drafted("decide", key, found), found)

    def _copied(self, kind: Kind[Any], at: At) -> Any:
        """A view's state as its caller's own, with records in place of envelopes."""
        state = at.folded.state
        if isinstance(state, Items):
            return [self._decoded(kind, each) for each in state]
        if isinstance(state, Recorded):
            return self._decoded(kind, state)
        keep, restore = getattr(kind, "keep", None), getattr(kind, "restore", None)
        found = copy.deepcopy(state) if keep is None or restore is None else restore(keep(state))
        if isinstance(found, dict):
            return {
                key: self._decoded(kind, each) if isinstance(each, Recorded) else each
                for key, each in found.items()
            }
        return found

    def _decoded(self, kind: Kind[Any], envelope: Recorded) -> Any:
        try:
            return kind.decode(envelope)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(envelope.type, envelope.seq, str(error)) from error

    def _item(self, kind: Kind[Any], each: Recorded) -> Item:
        record = self._decoded(kind, each)
        return Item(each.id, each.type, record, each.ts, each.recorded_at)


def _sequence_of(kind: Kind[Any]) -> Any:
    """The kind itself if it keeps every record; else a view beside it that does."""
    return kind if isinstance(kind.initial(), Items) else AllRecords(kind.family)


__all__ = ["At", "Attempts", "Decided", "Item", "Primitives", "Stored"]
