"""Streams on the log: what is decided on, in batches; what is read, in pages; what is removed."""

from __future__ import annotations

import asyncio
import copy
import secrets
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.bounds import Refused
from foldlog.errors import (
    FoldlogError,
    NotFound,
    PayloadError,
    PayloadTooLarge,
    RedactionFailed,
)
from foldlog.kind import Key
from foldlog.opening import Store
from foldlog.streams import deciding
from foldlog.streams.deciding import Asked, Outcome
from foldlog_projections.streams import Appended, Opened, Stream, Touched, keys_of, kind as streams

PAGE: Final = 1_000
"""Records that a read has at most."""

PAGE_BYTES: Final = 1024 * 1024
"""Bytes that a read has at most, but for the last record."""

_BATCH: Final = 500
_BATCH_BYTES: Final = 4 * 1024 * 1024
_ALONE: Final = (PayloadTooLarge, PayloadError, RedactionFailed)
"""What one request may be refused for, of several that are appended together."""

Decision = Callable[[Stream], Outcome]


class Look(NamedTuple):
    """What a read has found: bodies of records, and where they end.

    `is_whole`: there is nothing behind them; `is_closed`: nor will there be.
    """

    bodies: list[bytes]
    end: str
    is_whole: bool
    is_closed: bool


class Streams:
    """The streams of a store, by their paths."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._asking: dict[str, list[tuple[Decision, int, asyncio.Future[Outcome]]]] = {}
        self._writers = set[asyncio.Task[None]]()

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
            await self._ask(path, lambda now: Outcome(200, (Touched(),) if now.id else ()))

    async def append(self, path: str, asked: Asked) -> Outcome:
        """See `deciding.append`. Errors as `Store.decide`."""
        await self.state(path)
        size = sum(map(len, asked.pieces))
        return await self._ask(path, lambda stream: deciding.append(stream, asked), size)

    async def create(self, path: str, opened: Opened, asked: Asked) -> Outcome:
        """See `deciding.create`. Errors as `Store.decide`."""
        stream = await self.state(path)
        if opened.source and not stream.id:
            return await self._fork(path, opened, asked)
        if not opened.source and not opened.content_type:
            opened = msgspec.structs.replace(opened, content_type=deciding.BYTES)
        size = sum(map(len, asked.pieces))
        return await self._ask(path, lambda stream: deciding.create(stream, opened, asked), size)

    async def delete(self, path: str) -> Outcome:
        """Remove a stream, or have it stay for its forks alone. Errors as `Store.erase`."""
        stream = await self.state(path)
        return deciding.missing(stream) or await self._remove(path, stream)

    async def look(self, path: str, after: str | None) -> Look:
        """Read behind an offset; None: behind all. Raises Refused. Errors as `Store.items`."""
        stream = await self.state(path)
        refused = deciding.missing(stream)
        if refused is not None:
            raise Refused(refused.status, refused.reason)
        if after is None:
            return Look([], stream.tail, True, stream.is_closed)
        found = await self._appended(path, stream, after)
        end = found[-1].offset if found else after
        is_whole = end >= stream.tail
        return Look([each.body for each in found], end, is_whole, is_whole and stream.is_closed)

    # --- private --------------------------------------------------------------------------------

    async def _view(self, path: str) -> Stream:
        return await self._store.view(key_of(path), copy.copy, consistency="strong")

    async def _appended(
        self, path: str, stream: Stream, after: str, until: str | None = None, limit: int = PAGE
    ) -> list[Appended]:
        """A page of what a stream begins with, and then of what was appended to it."""
        opened, found, size = stream.opened, list[Appended](), 0
        assert opened is not None
        if after < opened.base:
            source = await self._view(opened.source) if opened.source else Stream()
            if source.id != opened.source_id:
                raise Refused(410, "what the stream begins with was erased")
            if opened.source:
                end = opened.base if until is None else min(until, opened.base)
                found = await self._appended(opened.source, source, after, end, limit)
            size = sum(len(each.body) for each in found)
            if end == until or not found or found[-1].offset < end:
                return found
            after = opened.base
        key, cursor = key_of(path), None if after == opened.base else after
        tail = stream.tail if until is None else until
        while len(found) < limit and size < PAGE_BYTES:
            items = await self._items(key, cursor, after < tail, PAGE_BYTES - size)
            for item in items:
                if isinstance(item.record, Appended) and len(found) < limit:
                    if until is not None and item.record.offset > until:
                        return found
                    found.append(item.record)
                    size += len(item.record.body)
                    after = item.record.offset
            if not items:
                break
            cursor = items[-1].id
        return found

    async def _items(self, key: Key[Stream], cursor: str | None, must: bool, most: int) -> Any:
        """A page of a view; where it must have more, not of one that lags."""
        for consistency in ("session", "strong") if must else ("session",):
            try:
                items = await self._store.items(
                    key,
                    after=cursor,
                    limit=PAGE,
                    max_bytes=most,
                    consistency=consistency,
                )
            except NotFound:
                raise Refused(410, "offset: it is of a stream that was deleted") from None
            if items:
                return items
        return []

    async def _fork(self, path: str, opened: Opened, asked: Asked) -> Outcome:
        """Open a stream that begins with what is in another: that one is told first.

        Whether a fork is there, its source's removal asks the fork. So one that was told of, and
        that a crash or a conflict prevented, keeps nothing.
        """
        source = await self.state(opened.source)
        refused = deciding.fork(source, path, opened.id)
        if refused.status >= 300:
            return refused
        at = source.opened
        assert at is not None
        if opened.content_type and deciding.media_type(opened.content_type) != (
            deciding.media_type(at.content_type)
        ):
            return Outcome(409, reason=f"the source is {at.content_type}")
        base = opened.fork_offset or source.tail
        if base > source.tail:
            return Outcome(400, reason="Stream-Fork-Offset: the source ends before")
        pieces = asked.pieces
        try:
            following = await self._appended(opened.source, source, base, limit=1)
        except Refused:
            return Outcome(400, reason="Stream-Fork-Offset: the source has had none of that")
        if opened.sub:
            if not following:
                return Outcome(400, reason="Stream-Fork-Sub-Offset: nothing follows the offset")
            first = deciding.cut_at(at.content_type, following[0].body, opened.sub)
            pieces = (first, *pieces)
        made = Opened(
            opened.id,
            at.content_type,
            base,
            opened.ttl if opened.ttl is not None or opened.expires_at else at.ttl,
            opened.expires_at or ("" if opened.ttl is not None else at.expires_at),
            opened.expires if opened.ttl is not None or opened.expires_at else at.expires,
            opened.source,
            source.id,
            opened.fork_offset,
            opened.sub,
        )
        told = await self._ask(opened.source, lambda now: deciding.fork(now, path, opened.id))
        if told.status >= 300:
            return told
        asked = asked._replace(pieces=pieces)
        outcome = await self._ask(path, lambda now: deciding.create(now, made, asked))
        if outcome.status == 201 and (await self._view(opened.source)).id != source.id:
            await self._store.erase(key_of(path), overwrite=False)
            return Outcome(404, reason="the source was deleted meanwhile")
        return outcome

    async def _remove(self, path: str, stream: Stream) -> Outcome:
        if await self._has_forks(path, stream):
            return await self._ask(path, deciding.remove)
        await self._store.erase(key_of(path), overwrite=False)
        # What was only kept for this one goes with it.
        while (opened := stream.opened) is not None and opened.source:
            path, stream = opened.source, await self._view(opened.source)
            if not stream.is_gone or await self._has_forks(path, stream):
                break
            await self._store.erase(key_of(path), overwrite=False)
        return Outcome(204)

    async def _has_forks(self, path: str, stream: Stream) -> bool:
        for fork, id in list(stream.forks.items()):
            there = await self._view(fork)
            if there.id == id and there.opened is not None and there.opened.source == path:
                return True
        return False

    async def _ask(self, path: str, decision: Decision, size: int = 0) -> Outcome:
        """Decide on a stream, with all others who ask meanwhile, in one append."""
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        asking = self._asking.get(path)
        if asking is None:
            asking = self._asking[path] = []
            writer = asyncio.create_task(self._write(path), name="foldlog stream writer")
            self._writers.add(writer)
            writer.add_done_callback(self._writers.discard)
        asking.append((decision, size, answer))
        return await answer

    async def _write(self, path: str) -> None:
        """Answer who asks about a stream, until nobody does. It raises nothing."""
        asking = self._asking[path]
        while asking:
            count = total = 0
            while count < len(asking) and count < _BATCH and total < _BATCH_BYTES:
                total += asking[count][1]
                count += 1
            batch = asking[:count]
            del asking[:count]
            await self._decide(path, batch)
        del self._asking[path]

    async def _decide(
        self, path: str, batch: list[tuple[Decision, int, asyncio.Future[Outcome]]]
    ) -> None:
        outcomes = list[Outcome]()

        def decide(stream: Stream) -> list[Any]:
            outcomes.clear()
            now, at = deciding.staged(stream), time.time()
            for decision, _, _ in batch:
                outcome = decision(now)
                outcomes.append(outcome)
                for each in outcome.records:
                    now.advanced(each, at)
            return [record for outcome in outcomes for record in outcome.records]

        try:
            await self._store.decide(key_of(path), decide, copy=False)
        except FoldlogError as error:
            if len(batch) > 1 and isinstance(error, _ALONE):
                for each in batch:
                    await self._decide(path, [each])
                return
            for _, _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
        except BaseException as error:
            for _, _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            raise
        else:
            for (_, _, answer), outcome in zip(batch, outcomes, strict=True):
                if not answer.done():
                    answer.set_result(outcome)


def key_of(path: str) -> Key[Stream]:
    """The view of a stream."""
    return streams(*keys_of(path))


def new_tag() -> str:
    """What ends the offsets of one request: it tells them from those of any other."""
    return secrets.token_hex(8)
