"""The indexes of a store's scopes: opened, brought up to date from the log, and let go of.

A scope's last change tells how far its index has to go: that is in memory, and pushes keep it
current, so that an index which goes as far answers without asking the log. Otherwise the log is
read from where the index ends. It proves itself by the change that stands there; if another one
does, the scope was cleared, or the index is of another log, and it is folded anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sqlite3
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from foldlog.errors import FoldlogError, StoreClosed
from foldlog.log.port import Record
from foldlog.scoped.errors import SearchFailed
from foldlog.scoped.index import Index, Synced, remove, wipe
from foldlog.scoped.scope import Scope, checked_scope
from foldlog.store.primitives import Primitives
from foldlog.views import Consistency
from foldlog_projections import scopes

P = ParamSpec("P")
T = TypeVar("T")

_OPEN: Final = 128
"""Indexes open at a time, beside those that are in use."""

_LARGE: Final = 1024
"""Changes from which on the index of a scope is kept in a file, searched or not."""

_SCOPES_REMEMBERED: Final = 10_000

_CLOSING_SECONDS: Final = 1.0
"""What indexes that are behind get when the store closes."""

_REMADE: Final = (1, 11, 19, 26)
"""SQLite's codes for a database that is not what it should be: ERROR, CORRUPT, CONSTRAINT, NOTADB.
The extended codes, of which FTS5 has one of its own, have them in their last byte.
"""


_log: Final = logging.getLogger("foldlog")


class _Opened(NamedTuple):
    """An open index, and how far it went when it was last looked at. `is_proven`: it is of this
    log.
    """

    at_hand: Index
    reached: Synced
    is_proven: bool = True


class Indexes:
    """The indexes of a store's scopes. Lives as long as the store.

    Args:
        place: the directory for index files; None keeps them in memory. A small scope that nobody
            searches has none.
    """

    def __init__(self, store: Primitives, place: Path | None) -> None:
        self._store = store
        self._place = place
        self._open: OrderedDict[Scope, _Opened] = OrderedDict()
        # A lock is there as long as somebody holds it or waits for it.
        self._turns: WeakValueDictionary[tuple[Scope, str], asyncio.Lock] = WeakValueDictionary()
        self._written: Counter[Scope] = Counter()
        self._keeping_up: set[asyncio.Task[None]] = set()
        self._closed = False

    def is_open(self, scope: Scope) -> bool:
        """Whether a scope's index is at hand."""
        return scope in self._open

    async def ask(
        self,
        scope: Scope,
        consistency: Consistency,
        function: Callable[Concatenate[Index, float, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a function, on a thread, on a scope's index as of now, and the time in Unix seconds.

        Raises:
            LogUnavailable, LogCorrupt: the log could not be read as far as was asked for.
            SearchFailed: the index cannot be kept.
        """
        checked_scope(scope)

        async def asked() -> T:
            async with self.turn(scope):
                index = await self.current(scope, consistency)
                return await on(index, function, self._store.now(), *args, **kwargs)

        return await self.mended(scope, asked)

    async def mended(self, scope: Scope, use: Callable[[], Awaitable[T]]) -> T:
        """Call a function that uses a scope's index, and again if the index was damaged."""
        try:
            try:
                found = await use()
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                if not _is_damage(error):
                    raise
                async with self.turn(scope, "search"), self.turn(scope):
                    await self._close(scope)
                    if (path := self._path(scope)) is not None:
                        await asyncio.to_thread(remove, path)
                found = await use()
            await self._make_room()
        except (sqlite3.Error, OSError) as error:
            raise SearchFailed(f"the index of a scope cannot be kept: {error}") from error
        return found

    def turn(self, scope: Scope, what: str = "read") -> asyncio.Lock:
        """What whoever works on a scope's index holds: a search holds its own for all of its time,
        and takes the readers' in turns with them. Keep it while waiting for it.
        """
        return self._turns.setdefault((scope, what), asyncio.Lock())

    async def current(
        self, scope: Scope, consistency: Consistency, *, is_kept: bool = False
    ) -> Index:
        """Return a scope's index, brought up to date. Hold its turn.

        Args:
            is_kept: in a file, if there is a place for files.
        """
        if self._closed and scope not in self._open:
            raise StoreClosed
        name = scope.subject_key
        folded, head = await self._store.read_stored_at(scopes.kind, name, consistency=consistency)
        last = "" if folded.state is None else folded.state.id
        opened = self._open.get(scope)
        if opened is not None and is_kept and opened.at_hand.path is None and self._place:
            await self._close(scope)
            opened = None
        if opened is None:
            opened = self._open[scope] = await asyncio.to_thread(self._opened, scope, is_kept)
        self._open.move_to_end(scope)
        index, reached, is_proven = opened
        if reached.seq != head or not (is_proven or reached.id == last):
            reached = await self._read_on(scope, index)
        self._open[scope] = _Opened(index, reached)
        if self._is_outgrown(index, reached):
            return await self.current(scope, "eventual", is_kept=True)
        return index

    def written(self, scope: Scope, changes: int) -> None:
        """Note that this process has appended changes to a scope. The index of a large one is kept
        up while it is written, so that the next process finds it made.
        """
        if self._place is None or self._closed:
            return
        if len(self._written) > _SCOPES_REMEMBERED:
            self._written.clear()
        self._written[scope] += changes
        if self._written[scope] >= _LARGE:
            del self._written[scope]
            task = asyncio.create_task(self._keep_up(scope), name="foldlog index")
            self._keeping_up.add(task)
            task.add_done_callback(self._keeping_up.discard)

    async def forget(self, scope: Scope | None) -> None:
        """Have the index of a scope, or of all, hold nothing, on disk neither.

        Raises:
            SearchFailed: it could not be had; forgetting again is safe.
        """
        for each in {*self._open, *(of for of, _ in self._turns)} if scope is None else {scope}:
            async with self.turn(each, "search"), self.turn(each):
                await self._close(each)
                if scope is not None:
                    await self._wiped(scope)
        if scope is None:
            await self._wiped(None)

    async def close(self) -> None:
        """Let go of the indexes. What has begun ends first; others are StoreClosed.

        What was written to large scopes is taken in, if that takes no time to speak of.
        """
        for scope in self._written.keys() & self._open.keys():
            if self._open[scope].at_hand.path is not None:
                self.written(scope, _LARGE)
        self._closed = True
        if self._keeping_up:
            _, late = await asyncio.wait(self._keeping_up, timeout=_CLOSING_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for scope in {*self._open, *(of for of, _ in self._turns)}:
            async with self.turn(scope, "search"), self.turn(scope):
                await self._close(scope)

    async def _read_on(self, scope: Scope, index: Index) -> Synced:
        """Read the log from where an index ends to its head, as of now."""
        log, subject = self._store.forked_log, self._store.subject(scopes.kind, scope.subject_key)
        while True:
            since = reached = await on(index, Index.synced)
            async with aclosing(log.read(subject, after=max(since.seq - 1, 0))) as pages:
                gone_on = await self._fold(index, reached, pages)
            if gone_on is not None:
                return gone_on

    async def _fold(
        self, index: Index, since: Synced, pages: AsyncGenerator[list[Record]]
    ) -> Synced | None:
        """Fold what follows `since`; None if that is not where the index or the log stands."""
        reached, is_proven = since, not since.seq
        async for page in pages:
            if not is_proven and not _proves(since, page[0]):
                break
            is_proven = True
            if page[-1].seq > reached.seq:
                folded = await on(index, Index.fold, page, reached)
                if folded is None:
                    return None
                reached = folded
            if self._is_outgrown(index, reached):
                return reached  # its file takes over
        if not is_proven:
            await on(index, Index.reset)
            return None
        return reached

    def _is_outgrown(self, index: Index, reached: Synced) -> bool:
        """Whether an index in memory is large enough for a file."""
        return reached.changes >= _LARGE and index.path is None and self._place is not None

    async def _keep_up(self, scope: Scope) -> None:
        try:
            await self.ask(scope, "session", Index.entry, "")
        except FoldlogError as error:
            _log.info("the index of %s: %s", scope, error)

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
            await on(opened.at_hand, Index.close)

    async def _wiped(self, scope: Scope | None) -> None:
        if self._closed:
            raise StoreClosed
        try:
            await asyncio.to_thread(self._wipe, scope)
        except (sqlite3.Error, OSError) as error:
            raise SearchFailed(f"the index of a scope cannot be wiped: {error}") from error

    def _opened(self, scope: Scope, is_kept: bool) -> _Opened:
        """On a thread: an index in its file, if it has one or is to have one."""
        path = self._path(scope)
        index = Index(path if path is not None and (is_kept or path.exists()) else None)
        return _Opened(index, index.synced(), is_proven=False)

    def _wipe(self, scope: Scope | None) -> None:
        """On a thread: what there is on disk, whether or not this process has opened it."""
        if self._place is None:
            return
        path = None if scope is None else self._path(scope)
        for each in self._place.glob("*.db") if path is None else [path]:
            try:
                if each.exists():
                    wipe(each)
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                if not _is_damage(error):
                    raise
                remove(each)

    def _path(self, scope: Scope) -> Path | None:
        if self._place is None:
            return None
        name = hashlib.blake2b(scope.subject_key.encode(), digest_size=16).hexdigest()
        return self._place / f"{name}.db"


async def on(
    index: Index,
    function: Callable[Concatenate[Index, P], T],
    *args: P.args,
    **kwargs: P.kwargs,
) -> T:
    """Call a function of an index on a thread.

    What was cancelled here may still be under way there, so the index is locked.
    """

    def locked() -> T:
        with index.lock:
            return function(index, *args, **kwargs)

    return await asyncio.to_thread(locked)


def _proves(synced: Synced, first: Record) -> bool:
    """Whether the log holds the change at which an index ends, given its first record there."""
    return first.seq == synced.seq and any(each.id == synced.id for each in first.envelopes)


def _is_damage(error: Exception) -> bool:
    # What SQLite says of a damaged schema quotes it, and may be no text at all.
    return getattr(error, "sqlite_errorcode", 1) & 0xFF in _REMADE
