"""The primitives: append, decide, view, items, keys and watch, for every kind alike.

The built-in capabilities, the facades and every adapter are made of these; they are public, for
kinds of users' own.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Final, NamedTuple, TypeVar, overload

import msgspec

from foldlog.envelope import Draft, Recorded
from foldlog.errors import (
    AppendConflict,
    AppendUnknown,
    ConfigurationError,
    LogCorrupt,
    LogUnavailable,
    PayloadError,
    ReadOnlyStore,
    shown,
)
from foldlog.kind import Key, Kind
from foldlog.log.port import Append
from foldlog.store.core import DECIDE_SECONDS, Core
from foldlog.store.cursor import checked_cursor, checked_limit
from foldlog.store.guards import drafting
from foldlog.store.operation import nothing, operation
from foldlog.views import Consistency
from foldlog_projections.fold import Folded
from foldlog_projections.folds import AllRecords
from foldlog_projections.items import Items

S = TypeVar("S")

_log: Final = logging.getLogger("foldlog")

_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.064
"""Seconds before a decision is made again, half of them by chance: doubled each time."""

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


class Primitives(Core):
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
        the function may be called several times and must change nothing. At once, also inside
        `store.atomic()`; never through the spool.

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
            return one.get(key, ())

        def decide_many(*all_at: At) -> dict[Key[Any], Decided]:
            states = [self._copied(k.kind, at) for k, at in zip(key, all_at, strict=True)]
            found = decision(*states) or {}
            return {each: self._decided(each, records) for each, records in found.items()}

        return await self.decide_drafts(list(key), decide_many, timeout=timeout)

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
        async with aclosing(self.hot_views.watch(kind, self._subject(key), after)) as records:
            async for each in records:
                yield self._item(key.kind, each)

    def atomic(self) -> AbstractAsyncContextManager[None]:
        """Make the saves inside `async with store.atomic():` one append, all or nothing.

        It is made when the block ends; nothing is appended if the block raises. Reads inside do
        not see what the block saves. A block inside another joins it.

        Raises:
            ConfigurationError: what was saved lives on several shards. Nothing was appended.
            ReadOnlyStore: the store is of the past.
        """
        if self.past is not None:
            raise ReadOnlyStore("atomic")
        block = self._gather_appends()
        return block if self.calls.is_plain else self.calls.block(block)

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

    # --- decisions --------------------------------------------------------------------------------

    async def decide_drafts(
        self,
        keys: Sequence[Key[Any]],
        decision: Callable[..., Mapping[Key[Any], Decided]],
        *,
        timeout: float = DECIDE_SECONDS,
        also: Sequence[Append] = (),
        on_conflict: Callable[[], Awaitable[None]] | None = None,
    ) -> dict[Key[Any], Any]:
        """As `decide`, of decisions that are drafts. The one compare-and-set of the project.

        Args:
            also: what is appended in the same moment, if anything is; on the same shard.
            on_conflict: awaited after a conflict; raises where deciding again is of no use.

        1. Read strongly, behind what waits in the spool. 2. Decide. 3. Append where the reading
        ended. 4. After a conflict, pause and begin again. 5. Where the outcome is unknown, read
        back: what is there was appended, and what is not there can only come while its subject
        ends where it did.
        """
        deadline = asyncio.get_running_loop().time() + timeout
        pause = _FIRST_PAUSE
        while True:
            read = [At(*await self.read_at(key.kind, *key.keys)) for key in keys]
            # No await from here on: a view may go on while others read, and its head with it.
            heads = {key: at.head for key, at in zip(keys, read, strict=True)}
            decided = {key: found for key, found in decision(*read).items() if found.drafts}
            if not decided:
                return {}
            appends = [
                Append(self._subject(key), tuple(found.drafts), heads[key])
                for key, found in decided.items()
            ]
            try:
                await self._append_decided([*appends, *also], deadline)
            except AppendConflict as conflict:
                if on_conflict is not None:
                    await on_conflict()
                pause = await self._pause(pause, deadline, conflict)
                continue
            return {key: found.value for key, found in decided.items()}

    async def _append_decided(self, appends: Sequence[Append], deadline: float) -> None:
        pause, doubt = _FIRST_PAUSE, None
        while True:
            conflict: AppendConflict | None = None
            try:
                await self.append_atomically(appends)
                return
            except AppendUnknown as unknown:
                doubt = unknown
            except AppendConflict as error:
                conflict = error
                if doubt is None:
                    raise
            except LogUnavailable:
                if doubt is None:
                    raise
            # An attempt whose outcome is unknown may be stored; a conflict may be with that.
            try:
                if await self._was_appended(appends):
                    return
                if conflict is not None:
                    raise conflict
            except LogUnavailable as error:
                _log.debug("the outcome of a decision was not read back: %s", error)
            pause = await self._pause(pause, deadline, doubt)

    async def _was_appended(self, appends: Sequence[Append]) -> bool:
        """Whether an append is on the log; with the first of its records all of it is."""
        subject, id = appends[0].subject, appends[0].drafts[0].id
        async with aclosing(self.forked_log.read(subject, after=appends[0].expect or 0)) as pages:
            async for records in pages:
                for record in records:
                    if any(each.id == id for each in record.envelopes):
                        self.hot_views.unsettled(subject)
                        return True
        return False

    async def _pause(self, pause: float, deadline: float, error: Exception) -> float:
        """Wait a moment and return how long to wait next; past the deadline raise the error."""
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            raise error
        await asyncio.sleep(min(pause * random.uniform(0.5, 1.0), left))
        return min(2 * pause, _LONGEST_PAUSE)

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


class At(NamedTuple):
    """A view's fold and the sequence at which its subject ended when it was read."""

    folded: Folded[Any]
    head: int


class Decided(NamedTuple):
    """What is appended to a key, and what the caller is given for it."""

    drafts: Sequence[Draft]
    value: Any


def _sequence_of(kind: Kind[Any]) -> Any:
    """The kind itself if it keeps every record; else a view beside it that does."""
    return kind if isinstance(kind.initial(), Items) else AllRecords(kind.family)


__all__ = ["Item", "Primitives"]
