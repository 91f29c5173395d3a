"""The indexes of a store's scopes: opened, brought up to date from the log, and let go of.

An index says at which change of the log it ends. Where the log has no more, it is fresh; what
follows is folded in; and if the log does not have that change, the scope was cleared, or the index
is of another log, and it is folded anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from foldlog.errors import LogCorrupt, StoreClosed
from foldlog.log.port import Record
from foldlog.scoped import records
from foldlog.scoped.documents import Text, Transaction, on
from foldlog.scoped.errors import SearchFailed
from foldlog.scoped.index import DAMAGED, Index, Synced, is_damage, remove, wipe
from foldlog.scoped.keys import Keys
from foldlog.scoped.records import KeyEvent
from foldlog.scoped.scope import Scope, checked_scope
from foldlog.views import Consistency, views
from foldlog_projections.scoped.scoped import Written

T = TypeVar("T")

_OPEN: Final = 128
"""Indexes open at a time, beside those that are in use."""

_LARGE: Final = 1024
"""Changes from which on the index of a scope is in a file, searched or not."""

_BATCH: Final = 4 * 1024 * 1024
_EVENTS: Final = 8000
"""Characters of text, or events, that are folded at once: large batches make few pieces to merge.
"""


class _Opened:
    """An open index: where it ended when the log was last asked, at which time, and how far the
    log went by then, as far as this process knew.
    """

    def __init__(self, index: Index) -> None:
        self.index = index
        self.synced = Synced()
        self.upto, self.asked_at, self.epoch = 0, 0.0, -1


class Indexes:
    """The indexes of a store's scopes. Lives as long as the store.

    Args:
        place: the directory for index files; None keeps them in memory. A small scope that nobody
            searches has none.
    """

    def __init__(self, keys: Keys, place: Path | None) -> None:
        self._keys = keys
        self._place = place
        self._open: OrderedDict[Scope, _Opened] = OrderedDict()
        # A lock is there as long as somebody holds it or waits for it.
        self._turns: WeakValueDictionary[tuple[Scope, str], asyncio.Lock] = WeakValueDictionary()
        self._closed = False

    async def ask(
        self,
        scope: Scope,
        consistency: Consistency,
        function: Callable[[Index, float], T],
        *,
        searches: bool = False,
        within: Transaction = "DEFERRED",
    ) -> T:
        """Call a function on a thread, with a scope's index as of now and the Unix time.

        An index that turns out to be damaged is made anew. One that is searched is in a file, if
        there is a place for it.
        """
        checked_scope(scope)
        views.check_consistency(consistency)

        async def asked() -> T:
            async with self.turn(scope):
                while True:
                    opened = await self._current(scope, consistency, searches)
                    seen = partial(_seen, function, self._keys.core.now(), opened.synced)
                    if (found := await on(opened.index, seen, within=within)) is not None:
                        return found[0]
                    opened.asked_at = 0.0  # others have gone on with its file, or emptied it

        try:
            try:
                found = await asked()
            except DAMAGED as error:
                if not is_damage(error):
                    raise
                async with self.turn(scope):
                    await self._close(scope)
                    if (path := self._path(scope)) is not None:
                        await asyncio.to_thread(remove, path)
                found = await asked()
            await self._make_room()
        except (sqlite3.Error, OSError) as error:
            raise SearchFailed(f"the index of a scope cannot be written: {error}") from error
        return found

    def turn(self, scope: Scope, what: str = "index") -> asyncio.Lock:
        """The lock for work on a scope. Refer to it while you wait for it."""
        return self._turns.setdefault((scope, what), asyncio.Lock())

    async def forget(self, scope: Scope | None) -> None:
        """Have the index of a scope, or of all, hold nothing, on disk neither, or SearchFailed."""
        for each in self._in_hand() if scope is None else {scope}:
            async with self.turn(each):
                await self._close(each)
                if scope is not None:
                    await self._wiped(scope)
        if scope is None:
            await self._wiped(None)

    async def close(self) -> None:
        """Let go of the indexes. What has begun ends first; others are StoreClosed."""
        self._closed = True
        for scope in self._in_hand():
            async with self.turn(scope):
                if (opened := self._open.pop(scope, None)) is not None:
                    with opened.index.lock:  # here: a process that ends starts no more threads
                        opened.index.close()

    async def _current(self, scope: Scope, consistency: Consistency, in_file: bool) -> _Opened:
        """Return a scope's index, up to date. Hold its turn."""
        if self._closed and scope not in self._open:
            raise StoreClosed
        opened = self._open.get(scope)
        if opened is None or (in_file and self._is_movable(opened)):
            await self._close(scope)
            path = self._path(scope)
            in_file = path is not None and (in_file or path.exists())
            index = await asyncio.to_thread(Index, path if in_file else None)
            opened = self._open[scope] = _Opened(index)
        self._open.move_to_end(scope)
        if not self._is_fresh(scope, opened, consistency):
            await self._read_on(scope, opened)
            if self._is_movable(opened) and opened.synced.changes >= _LARGE:
                return await self._current(scope, consistency, True)
        return opened

    def _is_fresh(self, scope: Scope, opened: _Opened, consistency: Consistency) -> bool:
        """Whether an index answers reads of that consistency as it is."""
        log = self._keys.core.forked_log
        if consistency == "strong" or opened.epoch != log.epoch:
            return False
        known = 0 if consistency == "eventual" else log.known(self._keys.branch(scope).shard)
        return known <= opened.upto and time.monotonic() - opened.asked_at < views.TRUST_SECONDS

    async def _read_on(self, scope: Scope, opened: _Opened) -> None:
        """Fold what follows in the log, to its head as of now."""
        log, index, branch = self._keys.core.forked_log, opened.index, self._keys.branch(scope)
        while True:
            since = await on(index, Index.synced)
            if since.seq and opened.epoch != log.epoch and not await self._proves(scope, since):
                await on(index, Index.reset)
                continue
            asked = log.known(branch.shard), time.monotonic(), log.epoch
            after = opened.upto if since == opened.synced else 0
            pages = log.read(branch, after=max(after, since.seq))
            reached: Synced | None = since
            async with aclosing(_ahead(_batches(self._keys, scope, pages))) as batches:
                async for batch in batches:
                    assert reached is not None, "else it is left"
                    reached = await on(index, partial(Index.fold, events=batch, since=reached))
                    if reached is None:
                        break  # others have gone on with it
                    if self._is_movable(opened) and reached.changes >= _LARGE:
                        break
            if reached is not None:
                opened.synced = reached
                opened.upto, opened.asked_at, opened.epoch = asked
                opened.upto = max(opened.upto, reached.seq)
                return

    async def _proves(self, scope: Scope, synced: Synced) -> bool:
        """Whether the log holds the change at which an index ends."""
        log = self._keys.core.forked_log
        stored = await log.stored(self._keys.branch(scope).shard, synced.seq)
        if stored is None:
            return False
        return any(each.id == synced.id for each in stored.record().envelopes)

    def _is_movable(self, opened: _Opened) -> bool:
        """Whether an index that is in memory can be in a file."""
        return opened.index.path is None and self._place is not None

    def _in_hand(self) -> set[Scope]:
        return {*self._open, *(scope for scope, _ in self._turns)}

    async def _make_room(self) -> None:
        """Close those that were used least recently, but none that is in use."""
        in_use = {scope for scope, _ in self._turns}
        while len(self._open) > _OPEN:
            idle = next((each for each in self._open if each not in in_use), None)
            if idle is None:
                return
            await self._close(idle)

    async def _close(self, scope: Scope) -> None:
        """Let go of a scope's index, if it is open."""
        if (opened := self._open.pop(scope, None)) is not None:
            await on(opened.index, Index.close)

    async def _wiped(self, scope: Scope | None) -> None:
        if self._closed:
            raise StoreClosed
        try:
            await asyncio.to_thread(self._wipe, scope)
        except (sqlite3.Error, OSError) as error:
            raise SearchFailed(f"the index of a scope cannot be wiped: {error}") from error

    def _wipe(self, scope: Scope | None) -> None:
        """On a thread: what there is on disk, whether or not this process has opened it."""
        if self._place is None:
            return
        path = None if scope is None else self._path(scope)
        for each in self._place.glob("*.db") if path is None else [path]:
            try:
                if each.exists():
                    wipe(each)
            except DAMAGED as error:
                if not is_damage(error):
                    raise
                remove(each)

    def _path(self, scope: Scope) -> Path | None:
        if self._place is None:
            return None
        name = hashlib.blake2b(scope.subject_key.encode(), digest_size=16).hexdigest()
        return self._place / f"{name}.db"


def _seen(
    function: Callable[[Index, float], T], now: float, synced: Synced, index: Index
) -> tuple[T] | None:
    """What a function finds in an index that ends there; None if it ends elsewhere."""
    return (function(index, now),) if index.synced() == synced else None


async def _batches(
    keys: Keys, scope: Scope, pages: AsyncGenerator[list[Record]]
) -> AsyncGenerator[list[KeyEvent]]:
    """Yield what a scope's records say, those of a record together, in batches of some size."""
    batch, size = list[KeyEvent](), 0
    async with aclosing(pages):
        async for page in pages:
            for event in await asyncio.to_thread(records.events_of, page):
                is_full = size >= _BATCH or len(batch) >= _EVENTS
                if is_full and event.envelope.seq != batch[-1].envelope.seq:
                    yield batch
                    batch, size = [], 0
                if isinstance(event.record, Written) and event.record.blob:
                    event = event._replace(text=await _text_of_blob(keys, scope, event))
                batch.append(event)
                size += len(event.text.body) if event.text else 0
    if batch:
        yield batch


async def _text_of_blob(keys: Keys, scope: Scope, event: KeyEvent) -> Text:
    try:
        payload = await keys.payload(scope, event.key, records.read(event.envelope))
    except LogCorrupt:
        # The key was cleared meanwhile; else a read of it says what is wrong.
        return Text.of(event.key, event.key, "")
    return await asyncio.to_thread(records.text_in, event.key, payload, event.envelope)


async def _ahead(source: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Yield what a generator does; while one item is used, the next one is made."""

    async def make() -> T | None:
        return await anext(source, None)

    making = asyncio.create_task(make(), name="foldlog index")
    try:
        while (item := await making) is not None:
            making = asyncio.create_task(make(), name="foldlog index")
            yield item
    finally:
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        await source.aclose()
