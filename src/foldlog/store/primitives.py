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
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import drafting
from foldlog.views import Consistency, watching
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
        return block if self.calls.are_plain else self.calls.block(block)

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
    ) -> dict[Key[Any], Stored]:
        """As `decide`, of decisions that are drafts. The one compare-and-set of the project.

        Args:
            keys: those that must not have been written to meanwhile. What is decided for others
                is appended in the same moment, wherever they end; on the same shard.
            also: what is appended beside it, if anything is.
            on_conflict: awaited after a conflict; raises where deciding again is of no use.

        1. Read, behind what waits in the spool: what is in memory at first, which the append
        proves, and strongly from then on. 2. Decide. 3. Append where the reading ended. 4. After
        a conflict, pause and begin again. 5. Where the outcome is unknown, read back: what is
        there was appended, and what is not there can only come while its subject ends where it
        did.
        """
        attempts = Attempts(timeout)
        consistency: Consistency = "session"
        while True:
            read = [
                At(*await self.read_at(key.kind, *key.keys, consistency=consistency))
                for key in keys
            ]
            # No await from here on: a view may go on while others read, and its head with it.
            heads = {key: at.head for key, at in zip(keys, read, strict=True)}
            try:
                decided = {key: found for key, found in decision(*read).items() if found.drafts}
            except Exception:
                if consistency == "strong":
                    raise
                decided = {}
            if consistency != "strong":
                consistency = "strong"
                if not heads.keys() <= decided.keys():  # nothing would prove what was read
                    continue
            appends = [
                Append(
                    self.subject(key.kind.family, *key.keys), tuple(found.drafts), heads.get(key)
                )
                for key, found in decided.items()
            ]
            if not appends:
                return {}
            try:
                seqs = await self._append_decided([*appends, *also], attempts)
            except AppendConflict as conflict:
                if on_conflict is not None:
                    await on_conflict()
                await attempts.pause(conflict)
            else:
                found = zip(decided.items(), seqs, strict=False)
                return {key: Stored(each.value, seq) for (key, each), seq in found}

    async def _append_decided(self, appends: Sequence[Append], attempts: Attempts) -> list[int]:
        """Append; where an outcome is unknown, read back, and append again what is not there."""
        doubt: AppendUnknown | None = None
        while True:
            conflict: AppendConflict | None = None
            try:
                return await self.append_atomically(appends)
            except AppendUnknown as error:
                doubt = error
            except (AppendConflict, LogUnavailable) as error:
                if doubt is None:
                    raise
                conflict = error if isinstance(error, AppendConflict) else None
            try:
                seqs = [await self._stored_at(append) for append in appends]
            except LogUnavailable as error:
                _log.debug("the outcome of a decision was not read back: %s", error)
            else:
                if all(seqs):
                    return seqs
                if conflict is not None:
                    raise conflict
            await attempts.pause(doubt)

    async def _stored_at(self, append: Append) -> int:
        """The sequence at which an append stands; 0 if it does not."""
        last = append.drafts[-1].id
        async with aclosing(
            self.forked_log.read(append.subject, after=append.expect or 0)
        ) as pages:
            async for records in pages:
                for record in records:
                    if any(each.id == last for each in record.envelopes):
                        self.hot_views.unsettled(append.subject)
                        return record.seq
        return 0

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


class Attempts:
    """Attempts at one decision, with a pause between two of them, until time is up."""

    def __init__(self, seconds: float) -> None:
        self._deadline = asyncio.get_running_loop().time() + seconds
        self._longest = _FIRST_PAUSE

    async def pause(self, error: Exception) -> None:
        """Wait a moment, half of it by chance, and longer each time; past the end raise `error`."""
        left = self._deadline - asyncio.get_running_loop().time()
        if left <= 0:
            raise error
        await asyncio.sleep(min(self._longest * random.uniform(0.5, 1.0), left))
        self._longest = min(2 * self._longest, _LONGEST_PAUSE)


class At(NamedTuple):
    """A view's fold and the sequence at which its subject ended when it was read."""

    folded: Folded[Any]
    head: int


class Decided(NamedTuple):
    """What is appended to a key, and what the caller is given for it."""

    drafts: Sequence[Draft]
    value: Any = None


class Stored(NamedTuple):
    """What was decided for a key, and the sequence at which it stands."""

    value: Any
    seq: int


def _sequence_of(kind: Kind[Any]) -> Any:
    """The kind itself if it keeps every record; else a view beside it that does."""
    return kind if isinstance(kind.initial(), Items) else AllRecords(kind.family)


__all__ = ["Item", "Primitives"]
