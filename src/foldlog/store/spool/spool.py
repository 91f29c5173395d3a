"""The write-ahead spool: what waits for the log on the local disk, in order.

It is a queue of segments. Callers append to the last one, group by group with one fsync each; one
task reads the first one, and removes it when all in it is on the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, ParamSpec, TypeVar

from foldlog.errors import ConfigurationError
from foldlog.store.spool.errors import NotSpooled
from foldlog.store.spool.frames import Entry, encode_frame
from foldlog.store.spool.place import Place
from foldlog.store.spool.segment import REFUSED, Segment

_CHUNK_BYTES: Final = 1024 * 1024
"""What is taken at once: enough that a round trip to the log is shared by many. A segment that has
grown so far gets no more, so that a crash repeats no more than that."""

P = ParamSpec("P")
T = TypeVar("T")

_log: Final = logging.getLogger("foldlog")


class SpoolHealth(NamedTuple):
    """The spool of a degrading store, counted in envelopes; most saves make one.

    `waiting` are not on the log yet; `bytes` is what they take on the disk, of which what this
    store itself has spooled takes at most `limit`. Since the store was opened: `spooled` were
    written, `drained` appended, `dropped` neither; `refused` ones wait in files of their own.
    """

    directory: Path
    waiting: int
    bytes: int
    limit: int
    spooled: int
    drained: int
    dropped: int
    refused: int = 0


class Chunk(NamedTuple):
    """Entries that go to the log in one append: many that need no atomicity, or one that does."""

    segment: Segment
    entries: list[Entry]
    end: int


class _Put(NamedTuple):
    frame: bytes
    envelopes: int
    written: asyncio.Future[None]


class Spool:
    """The spool of one store: its own segments, and those adopted from processes that have ended.

    Only `put` may be called by several tasks at once. `limit`: bytes that the store's own segments
    may take.
    """

    def __init__(self, place: Place, limit: int) -> None:
        self._place = place
        self._limit = limit
        self._segments: deque[Segment] = deque()  # drained from the left
        self._own = set[Segment]()
        self._written_to: Segment | None = None
        self._puts: list[_Put] = []
        self._put_bytes = self._putting = 0
        self._writer: asyncio.Task[None] | None = None
        self._disk = asyncio.Lock()
        self._spooled = self._drained = self._dropped = self._refused = 0

    @property
    def waiting(self) -> int:
        """How many envelopes are not on the log yet, those being written included."""
        if not self._segments:  # as for every save while the log is there
            return self._putting
        return self._putting + sum(segment.waiting for segment in self._segments)

    @property
    def is_nearly_empty(self) -> bool:
        """Whether all that waits can be taken at once."""
        left = sum(segment.end - segment.done for segment in self._segments)
        return left + self._put_bytes <= _CHUNK_BYTES

    @property
    def health(self) -> SpoolHealth:
        """What it holds, and what it has done."""
        return SpoolHealth(
            directory=self._place.directory,
            waiting=self.waiting,
            bytes=sum(segment.end for segment in self._segments),
            limit=self._limit,
            spooled=self._spooled,
            drained=self._drained,
            dropped=self._dropped,
            refused=self._refused,
        )

    async def adopt(self) -> None:
        """Take over what processes that have ended left behind, oldest first.

        What cannot be taken over stays where it is, and is a line in the program's log.
        """
        async with self._disk:
            found = list[Segment]()
            try:
                await _in_thread(_adopt, self._place, found)
            finally:
                # In front: they were there before what this store has spooled.
                self._segments.extendleft(reversed(found))

    async def put(self, entry: Entry) -> None:
        """Write an entry: it is on the disk when this returns. Entries stand in order of calls.

        A caller that is cancelled while waiting leaves the entry to be written.

        Raises:
            NotSpooled: the spool is full, or the disk would not take it.
        """
        frame = encode_frame(entry)
        used = self._put_bytes + sum(segment.end for segment in self._own)
        if used + len(frame) > self._limit:
            self._dropped += entry.envelopes
            raise NotSpooled(f"the spool is full: {used} of {self._limit} bytes")
        put = _Put(frame, entry.envelopes, asyncio.get_running_loop().create_future())
        self._puts.append(put)
        self._put_bytes += len(frame)
        self._putting += put.envelopes
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name="foldlog-spool-writer")
        await put.written

    async def take(self) -> Chunk | None:
        """Return what is to be appended next; None if nothing waits. Raises OSError."""
        while True:
            async with self._disk:
                while self._segments:
                    segment = self._segments[0]
                    if segment.waiting:
                        entries, end = await _in_thread(segment.read, _CHUNK_BYTES)
                        if entries:
                            return Chunk(segment, entries, end)
                        self._dropped += segment.waiting
                        await _in_thread(segment.set_aside)
                    else:
                        await _in_thread(segment.remove)
                    self._forget(segment)
            if self._writer is None:
                return None
            await asyncio.wait({self._writer})

    async def set_aside(self, entries: Sequence[Entry]) -> Path:
        """Write entries that the log refuses to a file of their own; it is on the disk then.

        Raises OSError, and ConfigurationError as `Segment.create`.
        """
        async with self._disk:
            path = await _in_thread(_set_aside, self._place, entries)
        self._refused += sum(entry.envelopes for entry in entries)
        return path

    def done(self, chunk: Chunk, *, dropped: int = 0, refused: int = 0) -> None:
        """Note that a chunk is on the log, but for what was dropped or set aside."""
        envelopes = sum(entry.envelopes for entry in chunk.entries)
        chunk.segment.done = chunk.end
        chunk.segment.waiting -= envelopes
        self._drained += envelopes - dropped - refused
        self._dropped += dropped

    async def close(self) -> None:
        """Let go of the segments; what waits in them is for the next process that adopts them."""
        if self._writer is not None:
            await asyncio.wait({self._writer})
        async with self._disk:
            while self._segments:
                segment = self._segments[0]
                self._forget(segment)
                await _in_thread(segment.release)

    def _forget(self, segment: Segment) -> None:
        self._segments.popleft()
        self._own.discard(segment)
        if segment is self._written_to:
            self._written_to = None

    async def _write(self) -> None:
        """Write what is put, one group after the other, each with one fsync."""
        while self._puts:
            async with self._disk:
                group, self._puts = self._puts, []
                failure = await self._append(group)
            envelopes = sum(put.envelopes for put in group)
            self._put_bytes -= sum(len(put.frame) for put in group)
            self._putting -= envelopes
            if failure is None:
                self._spooled += envelopes
            else:
                self._dropped += envelopes
            for put in group:
                if put.written.done():
                    continue  # its caller was cancelled
                if failure is None:
                    put.written.set_result(None)
                else:
                    error = NotSpooled(f"the spool cannot be written: {failure!r}")
                    put.written.set_exception(error)
        self._writer = None

    async def _append(self, group: list[_Put]) -> Exception | None:
        try:
            segment = self._written_to
            if segment is None or segment.end >= _CHUNK_BYTES:
                segment = self._written_to = await _in_thread(_created, self._place)
                self._own.add(segment)
                self._segments.append(segment)
            frames = [put.frame for put in group]
            await _in_thread(segment.append, frames, sum(put.envelopes for put in group))
        except Exception as error:  # noqa: BLE001 - handed to everyone who waits for this group
            return error
        return None


def _created(place: Place) -> Segment:
    place.check()
    return Segment.create(*place)


def _set_aside(place: Place, entries: Sequence[Entry]) -> Path:
    place.check()
    segment = Segment.create(*place, suffix=REFUSED)
    try:
        segment.append([encode_frame(entry) for entry in entries], 0)
        return segment.path
    finally:
        segment.release()


def _adopt(place: Place, found: list[Segment]) -> None:
    try:
        for path in place.files():
            segment = Segment.adopt(path)
            if segment is not None:
                found.append(segment)
        for path in place.strangers():
            _log.warning(
                "%s waits for another log; to have it appended to this one, let its name begin "
                "with %s",
                path,
                place.prefix,
            )
    except (OSError, ConfigurationError) as error:
        _log.error("the spool directory %s cannot be read: %r", place.directory, error)


async def _in_thread(call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what blocks in a thread. A caller that is cancelled meanwhile goes when it has ended."""
    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise
