"""What waits for the log, on the local disk: put by many, taken in order by one."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, ParamSpec, TypeVar

import msgspec

from foldlog.errors import ConfigurationError
from foldlog.store.spool.errors import NotSpooled
from foldlog.store.spool.file import REFUSED, Placed, SpoolFile
from foldlog.store.spool.frames import Entry, encode_frame
from foldlog.store.spool.place import Place

_CHUNK_BYTES: Final = 1024 * 1024
"""What is taken at once: enough that a round trip to the log is shared by many."""

P = ParamSpec("P")
T = TypeVar("T")

_log: Final = logging.getLogger("foldlog")


class SpoolHealth(NamedTuple):
    """The spool of a degrading store, counted in envelopes; most saves make one.

    `waiting` are not on the log yet; `bytes` is what they take on the disk, of which what this
    store itself has put takes at most `limit`. Since the store was opened: `spooled` were kept,
    `drained` appended, `dropped` neither; `refused` ones wait in files of their own.
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

    file: SpoolFile
    entries: list[Entry]
    end: int


class _Put(NamedTuple):
    frame: bytes
    envelopes: int
    kept: asyncio.Future[None]


class Spool:
    """The spool of one store: its own file, and those adopted from processes that have ended.

    Only `put` may be called by several tasks at once. `limit`: bytes that the store's own file may
    take.
    """

    def __init__(self, place: Place, limit: int) -> None:
        self._place = place
        self._limit = limit
        self._files: deque[SpoolFile] = deque()  # drained from the left; its own is the last
        self._own: SpoolFile | None = None
        self._puts: list[_Put] = []
        self._put_bytes = self._putting = 0
        self._writer: asyncio.Task[None] | None = None
        self._disk = asyncio.Lock()
        self._spooled = self._drained = self._dropped = self._refused = 0

    @property
    def waiting(self) -> int:
        """How many envelopes are not on the log yet, those being written included."""
        if not self._files:  # as for every save while the log is there
            return self._putting
        return self._putting + sum(file.waiting for file in self._files)

    @property
    def nearly_empty(self) -> bool:
        """Whether all that waits can be taken at once."""
        left = sum(file.end - file.progress.done for file in self._files)
        return left + self._put_bytes <= _CHUNK_BYTES

    @property
    def health(self) -> SpoolHealth:
        """What it holds, and what it has done."""
        return SpoolHealth(
            directory=self._place.directory,
            waiting=self.waiting,
            bytes=sum(file.end for file in self._files),
            limit=self._limit,
            spooled=self._spooled,
            drained=self._drained,
            dropped=self._dropped,
            refused=self._refused,
        )

    async def adopt(self) -> None:
        """Take over what processes that have ended left behind, oldest first.

        What cannot be taken over is told in the log; it stays where it is.
        """
        async with self._disk:
            found = list[SpoolFile]()
            try:
                await _in_thread(_adopt, self._place, found)
            finally:
                # In front: they were there before what this store has put.
                self._files.extendleft(reversed(found))

    async def put(self, entry: Entry) -> None:
        """Keep an entry: it is on the disk when this returns. Entries stand in order of calls.

        Who is cancelled while waiting leaves the entry to be kept.

        Raises:
            NotSpooled: the spool is full, or the disk would not take it. It is not kept.
        """
        frame = encode_frame(entry)
        used = self._put_bytes + (self._own.end if self._own else 0)
        if used + len(frame) > self._limit:
            self._dropped += entry.envelopes
            raise NotSpooled(f"the spool is full: {used} of {self._limit} bytes")
        put = _Put(frame, entry.envelopes, asyncio.get_running_loop().create_future())
        self._puts.append(put)
        self._put_bytes += len(frame)
        self._putting += put.envelopes
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name="foldlog-spool-writer")
        await put.kept

    async def take(self) -> Chunk | None:
        """Return what is to be appended next, and put on the disk that it may be from now on.

        None if nothing waits. Raises OSError.
        """
        while True:
            async with self._disk:
                while self._files:
                    file = self._files[0]
                    if file.waiting:
                        chunk = await _in_thread(_taken, file)
                        if chunk is not None:
                            return chunk
                        self._dropped += file.waiting
                        await _in_thread(file.set_aside)
                    else:
                        await _in_thread(file.remove)
                    self._files.popleft()
                    if file is self._own:
                        self._own = None
            if self._writer is None:
                return None
            await asyncio.wait({self._writer})

    async def set_aside(self, entries: Sequence[Entry]) -> Path:
        """Keep entries that the log refuses in a file of their own, on the disk when this returns.

        Raises OSError, and ConfigurationError as `SpoolFile.create`.
        """
        async with self._disk:
            path = await _in_thread(_set_aside, self._place, entries)
        self._refused += sum(entry.envelopes for entry in entries)
        return path

    def done(self, chunk: Chunk, *, dropped: int = 0, refused: int = 0) -> None:
        """Note that a chunk is on the log, but for what was dropped or set aside."""
        envelopes = sum(entry.envelopes for entry in chunk.entries)
        chunk.file.done(chunk.end, envelopes)
        self._drained += envelopes - dropped - refused
        self._dropped += dropped

    async def close(self) -> None:
        """Let go of the files; what waits in them is for the next who adopts them."""
        if self._writer is not None:
            await asyncio.wait({self._writer})
        async with self._disk:
            self._own = None
            while self._files:
                await _in_thread(self._files.popleft().release)

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
                if put.kept.done():
                    continue  # its caller was cancelled
                if failure is None:
                    put.kept.set_result(None)
                else:
                    put.kept.set_exception(NotSpooled(f"the spool cannot be written: {failure!r}"))
        self._writer = None

    async def _append(self, group: list[_Put]) -> Exception | None:
        try:
            if self._own is None:
                self._own = await _in_thread(_created, self._place)
                self._files.append(self._own)
            frames = [put.frame for put in group]
            await _in_thread(self._own.append, frames, sum(put.envelopes for put in group))
        except Exception as error:  # noqa: BLE001 - handed to everyone who waits for this group
            return error
        return None


def _created(place: Place) -> SpoolFile:
    place.check()
    return SpoolFile.create(*place)


def _set_aside(place: Place, entries: Sequence[Entry]) -> Path:
    place.check()
    file = SpoolFile.create(*place, suffix=REFUSED)
    try:
        file.append([encode_frame(entry) for entry in entries], 0)
        return file.path
    finally:
        file.let_go()


def _taken(file: SpoolFile) -> Chunk | None:
    placed = file.read(most_bytes=_CHUNK_BYTES)
    if not placed:
        return None
    if file.progress.done < file.progress.tried:
        # What may be on the log has to be looked for: it gets no more by trying again.
        placed = [each for each in placed if each.end <= file.progress.tried]
    together = 0 if placed[0].entry.atomic else len(placed)
    alone = next((n for n, each in enumerate(placed) if each.entry.atomic), together)
    placed = placed[: max(alone, 1)]
    entries = [_as_tried(file, each) for each in placed]
    file.trying(placed[-1].end)
    return Chunk(file, entries, placed[-1].end)


def _as_tried(file: SpoolFile, placed: Placed) -> Entry:
    if placed.end > file.progress.tried:
        return placed.entry
    return msgspec.structs.replace(placed.entry, doubtful=True)


def _adopt(place: Place, found: list[SpoolFile]) -> None:
    try:
        for path in place.files():
            file = SpoolFile.adopt(path)
            if file is not None:
                found.append(file)
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
    """Run what blocks in a thread. Who is cancelled meanwhile goes when it has ended."""
    work = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise
