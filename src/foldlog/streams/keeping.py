"""Streams on the log: what is decided on, in batches; what is read, in pages; what is removed."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import accumulate
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.bounds import Refused
from foldlog.errors import NotFound, PayloadError, PayloadTooLarge, RedactionFailed
from foldlog.kind import Key
from foldlog.opening import Store
from foldlog.store.primitives import Item
from foldlog.streams import deciding
from foldlog.streams.deciding import Asked, Outcome
from foldlog_projections.streams import (
    ZERO,
    Appended,
    Gone,
    Opened,
    Stream,
    Touched,
    keys_of,
    kind as streams,
)

# Records, and bytes but for the last record, that a read has at most.
PAGE: Final = 500
PAGE_BYTES: Final = 1024 * 1024

# Records of the first page of a longer stream: with its opening, what a cold log gives at once.
_FIRST: Final = 127

# Requests that are appended together.
_BATCH: Final = 500
_BATCH_BYTES: Final = 4 * 1024 * 1024

# What one of them may be refused for, and the others not.
_ALONE: Final = (PayloadTooLarge, PayloadError, RedactionFailed)

_EXPIRED: Final = Outcome(410)

Decision = Callable[[Stream], Outcome]
Batch = list[tuple[Decision, int, asyncio.Future[Outcome]]]


class Look(NamedTuple):
    """What a read has found: bodies of records, and where they end.

    `is_whole`: there is nothing behind them; `is_closed`: nor will there be.
    """

    bodies: list[bytes]
    end: str
    is_whole: bool
    is_closed: bool


class Source(NamedTuple):
    """What a reader reads, a stream or a feed: see `Streams.look` and `Wakes.listening`."""

    id: str
    content_type: str
    look: Callable[[str | None], Awaitable[Look]]
    listening: Callable[[], AbstractAsyncContextManager[asyncio.Event]]


class Streams:
    """The streams of a store, by their paths."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asking: dict[str, Batch] = {}
        self._looking: dict[tuple[tuple[str, ...], str | None], asyncio.Task[Look]] = {}
        self._tasks = set[asyncio.Task[Any]]()

    async def state(self, path: str) -> Stream:
        """What a stream is now; one that has expired is removed first. Errors as `Store.view`."""
        stream = await self._view(path)
        if not stream.is_gone and deciding.is_expired(stream, time.time()):
            await self._remove(path, stream)
            stream = await self._view(path)
            if deciding.is_expired(stream, time.time()):
                return Stream()  # it stays for a fork of its session
        return stream

    async def touch(self, path: str, stream: Stream) -> None:
        """Have the time to live of a stream that is read begin anew."""
        if deciding.wants_touch(stream, time.time()):
            await self._ask(path, lambda now: Outcome(200, (Touched(),) if now else ()))

    async def append(self, path: str, asked: Asked) -> Outcome:
        """See `deciding.append`. Errors as `Store.decide`."""

        def decision(stream: Stream) -> Outcome:
            if deciding.is_expired(stream, time.time()):
                return _EXPIRED
            return deciding.append(stream, asked)

        outcome = await self._ask(path, decision, asked.size)
        if outcome is _EXPIRED:
            await self.state(path)
            return await self._ask(path, lambda now: deciding.append(now, asked), asked.size)
        return outcome

    async def create(self, path: str, opened: Opened, asked: Asked) -> Outcome:
        """See `deciding.create`. Errors as `Store.decide`."""
        if not await self.state(path) and opened.source:
            return await self._fork(path, opened, asked)
        if not opened.source and not opened.content_type:
            opened = msgspec.structs.replace(opened, content_type=deciding.BYTES)
        return await self._ask(path, lambda now: deciding.create(now, opened, asked), asked.size)

    async def delete(self, path: str) -> Outcome:
        """Remove a stream, or have it stay for its forks alone. Errors as `Store.erase`."""
        stream = await self.state(path)
        deciding.there(stream)
        return await self._remove(path, stream)

    async def look(self, path: str, after: str | None, stream: Stream | None = None) -> Look:
        """Read behind an offset; None: behind all. Raises Refused. Errors as `Store.items`.

        `stream`: its state, if that was read just now.
        """
        stream = stream or await self.state(path)
        deciding.there(stream)
        if after is None:
            return Look([], stream.tail, True, stream.is_closed)
        is_long = after == ZERO and int(stream.tail[:16]) > PAGE
        limit = _FIRST if is_long else PAGE
        found = await self._appended(path, stream, deciding.checked_offset(after), limit=limit)
        end = found[-1].offset if found else after
        is_whole = end >= stream.tail
        return Look([each.body for each in found], end, is_whole, is_whole and stream.is_closed)

    async def look_together(self, name: tuple[str, ...], source: Source, after: str | None) -> Look:
        """Look at what has a name, once for all who ask for the same before it begins."""

        async def look() -> Look:
            del self._looking[name, after]
            return await source.look(after)

        looking = self._looking.get((name, after))
        if looking is None:
            looking = self._looking[name, after] = asyncio.create_task(look(), name="foldlog look")
            self._own(looking)
        return await asyncio.shield(looking)

    # --- private --------------------------------------------------------------------------------

    def _own(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _view(self, path: str) -> Stream:
        return await self._store.view(key_of(path), copy.copy, consistency="strong")

    async def _appended(
        self, path: str, stream: Stream, after: str, until: str | None = None, limit: int = PAGE
    ) -> list[Appended]:
        """A page of what a stream begins with, and then of what was appended to it."""
        opened, found = deciding.there(stream, even_gone=True), list[Appended]()
        if after < opened.base:
            source = await self._view(opened.source)
            if source.id != opened.source_id:
                raise Refused(410, "what the stream begins with was erased")
            end = min(until or opened.base, opened.base)
            found = await self._appended(opened.source, source, after, end, limit)
            if end == until or not found or found[-1].offset < end:
                return found
            after = opened.base
        cursor, tail = None if after == opened.base else after, until or stream.tail
        left = PAGE_BYTES - sum(len(each.body) for each in found)
        while len(found) < limit and left > 0:
            # One more for the record that opens it.
            items = await self._items(path, cursor, limit - len(found) + 1, left, after < tail)
            for item in items:
                if isinstance(item.record, Appended) and len(found) < limit:
                    after = item.record.offset
                    if after > tail and until:
                        return found
                    found.append(item.record)
                    left -= len(item.record.body)
            if not items or after >= stream.tail:
                break
            cursor = items[-1].id
        return found

    async def _items(
        self, path: str, after: str | None, limit: int, most: int, must: bool
    ) -> list[Item]:
        """A page of a view; where it must have more, not of one that lags."""
        key, items = key_of(path), self._store.items
        try:
            return await items(key, after=after, limit=limit, max_bytes=most) or (
                await items(key, after=after, limit=limit, max_bytes=most, consistency="strong")
                if must
                else []
            )
        except NotFound:
            raise Refused(410, "offset: it is of a stream that was deleted") from None

    async def _fork(self, path: str, opened: Opened, asked: Asked) -> Outcome:
        """Open a stream that begins with what is in another: that one notes it first.

        Whether a fork is there, its source's removal asks the fork. So one that it has noted, and
        that a crash or a conflict prevented, keeps nothing.
        """
        source = await self.state(opened.source)
        deciding.fork(source, path)
        opened = deciding.inherited(opened, source)
        try:
            following = await self._appended(opened.source, source, opened.base, limit=1)
        except Refused:
            raise Refused(400, "Stream-Fork-Offset: the source has had none of that") from None
        if opened.sub:
            if not following:
                raise Refused(400, "Stream-Fork-Sub-Offset: nothing follows the offset")
            first = deciding.cut_at(opened.content_type, following[0].body, opened.sub)
            asked = asked._replace(pieces=(first, *asked.pieces))
        await self._ask(opened.source, lambda now: deciding.fork(now, path))
        outcome = await self._ask(path, lambda now: deciding.create(now, opened, asked))
        if outcome.status == 201 and (await self._view(opened.source)).id != source.id:
            await self._store.erase(key_of(path), overwrite=False)
            raise Refused(404, "the source was deleted meanwhile")
        return outcome

    async def _remove(self, path: str, stream: Stream) -> Outcome:
        if await self._has_forks(path, stream):
            return await self._ask(path, lambda now: Outcome(204, (Gone(),) if now else ()))
        await self._store.erase(key_of(path), overwrite=False)
        # What was only kept for this one goes with it.
        while (opened := stream.opened) is not None and opened.source:
            path, stream = opened.source, await self._view(opened.source)
            if not stream.is_gone or await self._has_forks(path, stream):
                break
            await self._store.erase(key_of(path), overwrite=False)
        return Outcome(204)

    async def _has_forks(self, path: str, stream: Stream) -> bool:
        for fork in list(stream.forks):
            opened = (await self._view(fork)).opened
            if opened is not None and (opened.source, opened.source_id) == (path, stream.id):
                return True
        return False

    async def _ask(self, path: str, decision: Decision, size: int = 0) -> Outcome:
        """Decide on a stream, with all others who ask meanwhile, in one append."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        if path not in self._asking:
            self._asking[path] = []
            writer = asyncio.create_task(self._write(path), name="foldlog stream writer")
            self._own(writer)
        self._asking[path].append((decision, size, answer))
        return await answer

    async def _write(self, path: str) -> None:
        """Answer who asks about a stream, until nobody does."""
        try:
            while asking := self._asking[path]:
                sizes = accumulate(size for _, size, _ in asking[:_BATCH])
                count = max(sum(size <= _BATCH_BYTES for size in sizes), 1)
                batch, self._asking[path] = asking[:count], asking[count:]
                await self._decide(path, batch)
        finally:
            for _, _, answer in self._asking.pop(path):
                answer.cancel()

    async def _decide(self, path: str, batch: Batch) -> None:
        outcomes = list[Outcome | Refused]()

        def decide(stream: Stream) -> list[Any]:
            outcomes.clear()
            now, at, records = deciding.staged(stream), time.time(), list[Any]()
            for decision, _, _ in batch:
                try:
                    outcome = decision(now)
                except Refused as refused:
                    outcomes.append(refused)
                    continue
                outcomes.append(outcome)
                for each in outcome.records:
                    now.advanced(each, at)
                records += outcome.records
            return records

        try:
            await self._store.decide(key_of(path), decide, copy=False)
        except _ALONE as error:
            if len(batch) == 1:
                _answer(batch, [error])
            for each in batch if len(batch) > 1 else ():
                await self._decide(path, [each])
        except BaseException as error:
            _answer(batch, [error] * len(batch))
            if not isinstance(error, Exception):
                raise
        else:
            _answer(batch, outcomes)


def _answer(batch: Batch, outcomes: Sequence[Outcome | BaseException]) -> None:
    for (_, _, answer), outcome in zip(batch, outcomes, strict=True):
        if answer.done():
            continue  # it left
        if isinstance(outcome, Outcome):
            answer.set_result(outcome)
        elif isinstance(outcome, asyncio.CancelledError):
            answer.cancel()
        else:
            answer.set_exception(outcome)


def key_of(path: str) -> Key[Stream]:
    """The view of a stream."""
    return streams(*keys_of(path))
