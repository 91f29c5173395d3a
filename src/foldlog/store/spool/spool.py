"""The write-ahead spool: a queue of segments, filled at its end and delivered from its start."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, ParamSpec, TypeVar

from foldlog.errors import ConfigurationError
from foldlog.store.spool.place import Place
from foldlog.store.spool.segment import REFUSED, Frame, Segment, encode_frame

_CHUNK_BYTES: Final = 1024 * 1024
"""What is delivered at once: enough that many share a round trip to the log. A segment that has
grown so far gets no more, so that a crash repeats no more than that."""

P = ParamSpec("P")
T = TypeVar("T")

_log: Final = logging.getLogger("foldlog")


@dataclass(frozen=True, slots=True)
class SpoolHealth:
    """The spool of a degrading store, counted in envelopes; most saves make one.

    Attributes:
        directory: where it is.
        waiting: envelopes that are not in the log yet.
        bytes: bytes that they take on the disk.
        limit: bytes that this store's part may take.
        spooled: envelopes written to it since the store was opened.
        drained: envelopes appended to the log since.
        dropped: envelopes lost since: the spool was full, or their view was cleared meanwhile.
        refused: envelopes that the log refuses; they wait in separate files.
    """

    directory: str
    waiting: int
    bytes: int
    limit: int
    spooled: int
    drained: int
    dropped: int
    refused: int = 0


class Chunk(NamedTuple):
    """Frames that go to the log in one append: one atomic frame, or many others."""

    segment: Segment
    frames: list[Frame]
    end: int


class Spool:
    """The spool of one store: its own segments, and those adopted from processes that have ended.

    `limit`: bytes that the store's own segments may take.
    """

    def __init__(self, place: Place, limit: int) -> None:
        self._place = place
        self._limit = limit
        self._segments: deque[Segment] = deque()
        self._disk = asyncio.Lock()
        self._spooled = self._drained = self._dropped = self._refused = 0

    @property
    def waiting(self) -> int:
        """How many envelopes are not on the log yet."""
        return sum(segment.waiting for segment in self._segments)

    @property
    def is_nearly_empty(self) -> bool:
        """Whether one chunk holds all that waits."""
        return sum(segment.end - segment.done for segment in self._segments) <= _CHUNK_BYTES

    @property
    def health(self) -> SpoolHealth:
        """What it holds, and what it has done."""
        return SpoolHealth(
            directory=str(self._place.directory),
            waiting=self.waiting,
            bytes=sum(segment.end for segment in self._segments),
            limit=self._limit,
            spooled=self._spooled,
            drained=self._drained,
            dropped=self._dropped,
            refused=self._refused,
        )

    async def _adopt(self) -> None:
        """Take over what processes that have ended left behind, oldest first.

        What cannot be taken over stays where it is, and is a line in the program's log.
        """
        found = list[Segment]()
        try:
            await _in_thread(_adopt, self._place, found)
        finally:
            # In front: they are older than what this store has spooled.
            self._segments.extendleft(reversed(found))

    async def put(self, frames: Sequence[Frame]) -> list[str]:
        """Write frames, in order and with one fsync; return for each why it was dropped, or "".

        The others are on the disk when this returns.
        """
        async with self._disk:
            used = sum(segment.end for segment in self._segments if not segment.adopted)
            failures, kept, envelopes = list[str](), list[bytes](), 0
            for frame in frames:
                data = encode_frame(frame)
                if used + len(data) > self._limit:
                    failures.append(f"the spool is full: {used} of {self._limit} bytes")
                    self._dropped += frame.envelopes
                    continue
                failures.append("")
                kept.append(data)
                used += len(data)
                envelopes += frame.envelopes
            try:
                if kept:
                    segment = await self._writable()
                    await _in_thread(segment.append, kept, envelopes)
            except Exception as error:  # noqa: BLE001 - returned to those whose frames they are
                self._dropped += envelopes
                return [each or f"the spool cannot be written: {error!r}" for each in failures]
            self._spooled += envelopes
            return failures

    async def take(self) -> Chunk | None:
        """Return what is to be delivered next; None if nothing waits.

        When nothing of its own waits any more, it takes over what others have left behind.
        """
        async with self._disk:
            while True:
                if not self._segments:
                    await self._adopt()
                if not self._segments:
                    return None
                segment = self._segments[0]
                if segment.waiting:
                    frames, end = await _in_thread(segment.read, _CHUNK_BYTES)
                    if frames:
                        return Chunk(segment, frames, end)
                    self._dropped += segment.waiting
                    await _in_thread(segment.set_aside)
                else:
                    await _in_thread(segment.release)
                self._segments.popleft()

    def done(self, chunk: Chunk, *, dropped: int = 0, refused: int = 0) -> None:
        """Note that a chunk is on the log, but for the envelopes that were dropped or refused."""
        envelopes = sum(frame.envelopes for frame in chunk.frames)
        chunk.segment.done = chunk.end
        chunk.segment.waiting -= envelopes
        self._drained += envelopes - dropped - refused
        self._dropped += dropped
        self._refused += refused

    async def set_aside(self, frames: Sequence[Frame]) -> Path:
        """Write frames that the log refuses to a file of their own; it is on the disk then.

        Raises OSError, and ConfigurationError as `Segment.create`.
        """
        async with self._disk:
            return await _in_thread(_set_aside, self._place, frames)

    async def close(self) -> None:
        """Let go of the segments; what waits in them is for the next process that adopts them."""
        async with self._disk:
            while self._segments:
                await _in_thread(self._segments.popleft().release)

    async def _writable(self) -> Segment:
        last = self._segments[-1] if self._segments else None
        if last is None or last.adopted or last.end >= _CHUNK_BYTES:
            last = await _in_thread(_create, self._place)
            self._segments.append(last)
        return last


def _create(place: Place) -> Segment:
    place.check()
    return Segment.create(*place)


def _set_aside(place: Place, frames: Sequence[Frame]) -> Path:
    place.check()
    segment = Segment.create(*place, suffix=REFUSED)
    try:
        segment.append([encode_frame(frame) for frame in frames], 0)
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
