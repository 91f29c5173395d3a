"""The indexes of a store's scopes: opened, brought up to date from the log, and let go of.

An open index hears of what is pushed to its scope and of what this process appends, so that it
answers without asking the log while there is no news. Otherwise the log is read from where the
index ends. It proves itself by the change that stands there; if another one does, the scope was
cleared, or the index is of another log, and it is folded anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sqlite3
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from foldlog.errors import FoldlogError, StoreClosed
from foldlog.log.port import Unfollow
from foldlog.scoped.errors import SearchFailed
from foldlog.scoped.index import Index, Known, Synced, remove, wipe
from foldlog.scoped.scope import Scope, checked_scope
from foldlog.store.core import core_of
from foldlog.store.store import BaseStore
from foldlog.subjects import Branch, Subject
from foldlog.views import Consistency, views
from foldlog_projections import scoped

P = ParamSpec("P")
T = TypeVar("T")

_OPEN: Final = 128
"""Indexes open at a time, beside those that are in use."""

_LARGE: Final = 1024
"""Changes from which on the index of a scope is in a file, searched or not."""

_SCOPES_REMEMBERED: Final = 10_000

_CLOSING_SECONDS: Final = 1.0
"""What indexes that are behind get when the store closes."""

_REMADE: Final = (1, 11, 19, 26)
"""SQLite's codes for a database that is not what it should be: ERROR, CORRUPT, CONSTRAINT, NOTADB.
The extended codes, also FTS5's, have them in their last byte.
"""


_log: Final = logging.getLogger("foldlog")


class _Opened:
    """An open index, and how far it went when it was last looked at."""

    def __init__(self, index: Index, reached: Synced) -> None:
        self.index = index
        self.reached = reached
        self.unfollow: Unfollow | None = None
        self.heard = 0  # how often there was news
        self._looked, self._looked_at, self._epoch = -1, 0.0, -1

    def hear(self, seq: int | None) -> None:
        """Take note of a change at a sequence; None: there may be one."""
        if seq is None or seq > self.reached.seq:
            self.heard += 1

    def looked(self, heard: int, at: float, epoch: int) -> None:
        """Take note that it went as far as the log did at a time, by `time.monotonic()`."""
        self._looked, self._looked_at, self._epoch = heard, at, epoch

    def is_proven(self, epoch: int) -> bool:
        """Whether it was found to be of the log as that is in this epoch."""
        return epoch == self._epoch

    def is_current(self, consistency: Consistency, epoch: int) -> bool:
        """Whether it answers reads of that consistency as it is."""
        if consistency == "strong" or not self.is_proven(epoch):
            return False
        is_trusted = time.monotonic() - self._looked_at < views.TRUST_SECONDS
        return is_trusted and (consistency == "eventual" or self._looked == self.heard)


class Indexes:
    """The indexes of a store's scopes. Lives as long as the store.

    Args:
        place: the directory for index files; None keeps them in memory. A small scope that nobody
            searches has none.
    """

    def __init__(self, store: BaseStore, place: Path | None) -> None:
        self._store = store
        self._core = core_of(store)
        self._place = place
        self._open: OrderedDict[Scope, _Opened] = OrderedDict()
        # A lock is there as long as somebody holds it or waits for it.
        self._turns: WeakValueDictionary[tuple[Scope, str], asyncio.Lock] = WeakValueDictionary()
        self._written: Counter[Scope] = Counter()
        self._keeping_up: set[asyncio.Task[None]] = set()
        self._closed = False
        self._core.hot_views.on_append.append(self._appended)

    def is_open(self, scope: Scope) -> bool:
        """Whether a scope's index is at hand."""
        return scope in self._open

    def recall(
        self, scope: Scope, consistency: Consistency, look: Callable[[Known, float], T | None]
    ) -> T | None:
        """Return what a function finds in an index's memory now, given the time in Unix seconds.

        None also where that does not answer reads of that consistency as it is: ask.
        """
        opened = self._open.get(checked_scope(scope))
        if opened is None or not opened.is_current(consistency, self._core.forked_log.epoch):
            return None
        if not opened.index.lock.acquire(blocking=False):
            return None
        try:
            known = opened.index.known
            if known.at != opened.reached:
                return None
            self._open.move_to_end(scope)
            return look(known, self._core.now())
        finally:
            opened.index.lock.release()

    async def ask(
        self,
        scope: Scope,
        consistency: Consistency,
        function: Callable[Concatenate[Index, float, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Call a function on a thread, with a scope's index as of now and the Unix time."""
        checked_scope(scope)

        async def asked() -> T:
            async with self.turn(scope):
                index = await self.current(scope, consistency)
                now = self._core.now()
                return await on(index, seen_at_once(function), now, *args, **kwargs)

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
            raise SearchFailed(f"the index of a scope cannot be written: {error}") from error
        return found

    def turn(self, scope: Scope, what: str = "read") -> asyncio.Lock:
        """The lock for work on a scope's index. A search holds one of its own for all of its time,
        and takes the readers' in turns with them. Refer to it while you wait for it.
        """
        return self._turns.setdefault((scope, what), asyncio.Lock())

    async def current(
        self, scope: Scope, consistency: Consistency, *, is_kept: bool = False
    ) -> Index:
        """Return a scope's index, up to date; `is_kept`: in a file, if anywhere. Hold its turn."""
        if self._closed and scope not in self._open:
            raise StoreClosed
        views.check_consistency(consistency)
        log = self._core.forked_log
        branch = log.namespace.branch(scoped.kind.name, scope.subject_key)
        opened = self._open.get(scope)
        if opened is not None and is_kept and opened.index.path is None and self._place:
            await self._close(scope)
            opened = None
        if opened is None:
            opened = self._open[scope] = await asyncio.to_thread(self._opened, scope, is_kept)
        self._open.move_to_end(scope)
        if opened.unfollow is None:
            hear = opened.hear
            opened.unfollow = await log.follow(branch, lambda record: hear(record.seq))
        is_past = self._core.past is not None and opened.is_proven(log.epoch)
        if not (is_past or opened.is_current(consistency, log.epoch)):
            heard, at, epoch = opened.heard, time.monotonic(), log.epoch
            opened.reached = await self._read_on(branch, opened, strong=consistency != "eventual")
            opened.looked(heard, at, epoch)
        if self._is_outgrown(opened.index, opened.reached):
            return await self.current(scope, "eventual", is_kept=True)
        return opened.index

    def written(self, scope: Scope, changes: int) -> None:
        """Note that this process has appended changes to a scope. The index of a large one is
        updated while it is written, so that the next process finds it made.
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
        """Have the index of a scope, or of all, hold nothing, on disk neither, or SearchFailed."""
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
            if self._open[scope].index.path is not None:
                self.written(scope, _LARGE)
        if not self._closed:
            self._core.hot_views.on_append.remove(self._appended)
        self._closed = True
        if self._keeping_up:
            _, late = await asyncio.wait(self._keeping_up, timeout=_CLOSING_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for scope in {*self._open, *(of for of, _ in self._turns)}:
            async with self.turn(scope, "search"), self.turn(scope):
                await self._close(scope)

    async def _read_on(self, branch: Branch, opened: _Opened, *, strong: bool) -> Synced:
        """Read the log from where an index ends to its head, as of now."""
        log, index, is_proven = self._core.forked_log, opened.index, opened.is_proven
        while True:
            since = await on(index, Index.synced)
            if since.seq and not is_proven(log.epoch) and not await self._proves(since, branch):
                await on(index, Index.reset)
                continue
            reached: Synced | None = since
            async with aclosing(log.read(branch, after=since.seq, strong=strong)) as pages:
                async for page in pages:
                    if reached is None or self._is_outgrown(index, reached):
                        break  # others have gone on with it, or its file takes over
                    reached = await on(index, Index.fold, page, reached)
            if reached is not None:
                return reached

    async def _proves(self, synced: Synced, branch: Branch) -> bool:
        """Whether the log holds the change at which an index ends."""
        stored = await self._core.forked_log.stored(branch.shard, synced.seq)
        if stored is None:
            return False
        return any(each.id == synced.id for each in stored.record().envelopes)

    def _appended(self, subject: Subject, seq: int | None) -> None:
        if self._open and subject.family == scoped.kind.name:
            opened = self._open.get(Scope.from_subject_key(subject.keys[0]))
            if opened is not None:
                opened.hear(seq)

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
            if opened.unfollow is not None:
                await opened.unfollow()
            await on(opened.index, Index.close)

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
        return _Opened(index, index.synced())

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


def seen_at_once(
    function: Callable[Concatenate[Index, P], T],
) -> Callable[Concatenate[Index, P], T]:
    """A function of an index that sees it at one moment, whatever other processes write to it."""

    def seeing(index: Index, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with index.transaction("DEFERRED"):
            return function(index, *args, **kwargs)

    return seeing


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


def _is_damage(error: Exception) -> bool:
    # What SQLite says of a damaged schema quotes it, and may be no text at all.
    return getattr(error, "sqlite_errorcode", 1) & 0xFF in _REMADE
