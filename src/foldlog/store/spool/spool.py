"""The write-ahead spool of one store: its own file, and those of processes that have ended."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from foldlog.errors import ConfigurationError
from foldlog.log.threads import run_to_end
from foldlog.store.spool import file
from foldlog.store.spool.file import REFUSED, Chunk, Frame, SpoolFile, encode_frame
from foldlog.store.spool.place import Place

_log: Final = logging.getLogger("foldlog")


@dataclass(frozen=True, slots=True)
class SpoolHealth:
    """The spool of a degrading store, counted in envelopes; most saves make one.

    Attributes:
        directory: where it is.
        waiting: envelopes that are not in the log yet: this store's, and those of the file of an
            ended process that it delivers now.
        bytes: bytes that they take on the disk.
        limit: bytes that this store's file may take.
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


class Spool:
    """The store's own file, while anything waits in it, and the file that is delivered now.

    `limit`: bytes that the store's own file may take.
    """

    def __init__(self, place: Place, limit: int) -> None:
        self._place = place
        self._limit = limit
        self._own: SpoolFile | None = None
        self._delivered: SpoolFile | None = None
        self._disk = asyncio.Lock()
        self._counts = Counter(spooled=0, drained=0, dropped=0, refused=0)

    @property
    def _files(self) -> list[SpoolFile]:
        adopted = None if self._delivered is self._own else self._delivered
        return [each for each in (adopted, self._own) if each is not None]

    @property
    def waiting(self) -> int:
        """How many envelopes are not in the log yet. Each save asks."""
        if self._own is None and self._delivered is None:
            return 0
        return sum(each.waiting for each in self._files)

    @property
    def is_better_drained(self) -> bool:
        """Whether saves should wait for the drain: little is left, or little space is."""
        left = sum(each.end - each.done for each in self._files)
        used = self._own.end if self._own is not None else 0
        return left <= file.CHUNK_BYTES or used > self._limit // 2

    @property
    def health(self) -> SpoolHealth:
        """What it holds, and what it has done."""
        return SpoolHealth(
            directory=str(self._place.directory),
            waiting=self.waiting,
            bytes=sum(each.end for each in self._files),
            limit=self._limit,
            **self._counts,
        )

    async def put(self, frames: Sequence[Frame]) -> list[str]:
        """Write frames, in order and with one fsync; return for each why it was dropped, or "".

        The others are on the disk when this returns.
        """
        async with self._disk:
            used = self._own.end if self._own is not None else 0
            failures, kept, envelopes = [""] * len(frames), list[bytes](), 0
            for number, frame in enumerate(frames):
                data = encode_frame(frame)
                if used + len(data) <= self._limit:
                    kept.append(data)
                    used += len(data)
                    envelopes += frame.envelopes
                else:
                    failures[number] = f"the spool is full: {used} of {self._limit} bytes"
                    self._counts["dropped"] += frame.envelopes
            try:
                if kept:
                    own = await run_to_end(self._write, kept)
                    own.waiting += envelopes
            except Exception as error:  # noqa: BLE001 - returned to those whose frames they are
                self._counts["dropped"] += envelopes
                return [each or f"the spool cannot be written: {error!r}" for each in failures]
            self._counts["spooled"] += envelopes
            return failures

    async def take(self) -> Chunk | None:
        """Return what is to be delivered next; None if nothing waits.

        What processes that have ended left behind comes before the store's own file. What is
        appended to that while it is delivered goes with it.
        """
        async with self._disk:
            while True:
                if self._delivered is None:
                    await run_to_end(self._adopt)
                    self._delivered = self._delivered or self._own
                if self._delivered is None:
                    return None
                chunk = await run_to_end(self._delivered.read)
                if chunk is not None:
                    return chunk
                await run_to_end(self._delivered.finish)
                self._counts["dropped"] += self._delivered.waiting  # it was damaged
                if self._own is self._delivered:
                    self._own = None
                self._delivered = None

    def done(self, chunk: Chunk, *, dropped: int = 0, refused: int = 0) -> None:
        """Note that a chunk is in the log, but for the envelopes that were dropped or refused."""
        assert self._delivered is not None
        self._delivered.done = chunk.end
        self._delivered.waiting -= chunk.envelopes
        drained = chunk.envelopes - dropped - refused
        self._counts.update(drained=drained, dropped=dropped, refused=refused)

    async def set_aside(self, frames: Sequence[Frame]) -> Path:
        """Write frames that the log refuses to a file of their own; it is on the disk then.

        Raises OSError, and ConfigurationError as `Place.check`.
        """
        async with self._disk:
            return await run_to_end(_set_aside, self._place, frames)

    async def close(self) -> None:
        """Let go of the files; what waits in them is for the next process that adopts them."""
        async with self._disk:
            for each in self._files:
                await run_to_end(each.release if each.waiting else each.finish)
            self._own = self._delivered = None

    # --- in a thread: a caller that is cancelled leaves the file where `close` finds it -----------

    def _write(self, frames: Sequence[bytes]) -> SpoolFile:
        if self._own is None:
            self._own = _create(self._place)
        self._own.append(frames)
        return self._own

    def _adopt(self) -> None:
        """Take over the oldest file that a process that has ended left behind.

        What cannot be taken over stays where it is, and is a line in the program's log.
        """
        place = self._place
        try:
            for path in place.files():
                self._delivered = SpoolFile.adopt(path)
                if self._delivered is not None:
                    return
            for path in place.strangers():
                _log.warning(
                    "%s waits for another log; to have it appended to this one, let its name begin "
                    "with %s",
                    path,
                    place.prefix,
                )
        except (OSError, ConfigurationError) as error:
            _log.error("the spool directory %s cannot be read: %r", place.directory, error)


def _create(place: Place, suffix: str = file.SUFFIX) -> SpoolFile:
    place.check()
    return SpoolFile.create(*place, suffix=suffix)


def _set_aside(place: Place, frames: Sequence[Frame]) -> Path:
    made = _create(place, REFUSED)
    try:
        made.append([encode_frame(frame) for frame in frames])
    finally:
        made.release()
    return made.path
