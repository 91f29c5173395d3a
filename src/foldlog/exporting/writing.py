"""Writing an export: what the log held at one moment, while others write on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, NamedTuple

from foldlog.exporting.lines import (
    FORMAT,
    BlobLine,
    Header,
    Manifest,
    Places,
    encode_line,
    encode_record,
)
from foldlog.exporting.newfile import NewFile
from foldlog.opening import Past, Store
from foldlog.position import LogPosition
from foldlog.store import LogRecord
from foldlog.store.copying import blob, blob_refs
from foldlog.store.core import core_of
from foldlog.store.forks import When

_RECORDS: Final = 500
_BYTES: Final = 4 * 1024 * 1024


class ExportProgress(NamedTuple):
    """How far an export is.

    Attributes:
        done: sequences read.
        total: sequences to read.
        records: records written.
        blobs: artifacts and other large values written.
    """

    done: int
    total: int
    records: int
    blobs: int


class Exported(NamedTuple):
    """What an export wrote.

    Attributes:
        records: records.
        blobs: artifacts and other large values.
        until: the position up to which it reads.
        sha256: the SHA-256 of the file's lines; "" of a table.
    """

    records: int
    blobs: int
    until: LogPosition
    sha256: str


OnProgress = Callable[[ExportProgress], None]


async def export(
    store: Store,
    path: str | Path,
    *,
    session_id: str | None = None,
    since: When | None = None,
    until: When | None = None,
    on_progress: OnProgress | None = None,
) -> Exported:
    """Write what a log holds to a new file of JSON lines, and return what was written.

    The file has its name when it is whole; until then it is `<path>.part`. What is saved meanwhile
    is not part of it; what is erased meanwhile may be.

    Args:
        store: the store.
        path: the file; nothing may be there. A name that ends in `.gz` has it compressed.
        session_id: only what erasing this session would remove. None: all.
        since: only what was stored after that moment, as `Store.at` takes it. None: all.
        until: only what was stored up to that moment. None: up to now.
        on_progress: called with an `ExportProgress` now and then.

    Raises:
        Misuse: there is such a file. Busy: another process writes it. ConfigurationError: it cannot
            be written.
        InvalidId, UnknownMoment: the session id is empty, or there is no such moment.
        PastErased: the session was erased after that moment.
        LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        StoreClosed: the store is closed.

    Examples:
        >>> from foldlog import exporting
        >>> await store.save_memory_state("acme:ann:trip", {"n": 1})
        >>> exported = await exporting.export(store, "all.jsonl.gz")
        >>> async with foldlog.memory_store() as other:
        ...     restored = await exporting.restore(other, "all.jsonl.gz")
        ...     await other.load_memory_state("acme:ann:trip")
        {'n': 1}
    """
    writing, out = Writing(store, session_id, since, until), NewFile(Path(path))
    try:
        await writing.write(out.write, on_progress)
        await asyncio.to_thread(out.finish)
    finally:
        await asyncio.to_thread(out.close)
    return writing.exported


async def export_lines(
    store: Store,
    *,
    session_id: str | None = None,
    since: When | None = None,
    until: When | None = None,
) -> AsyncGenerator[bytes]:
    """Yield the lines of an export, some at a time.

    Args:
        store: the store.
        session_id: only what erasing this session would remove. None: all.
        since: only what was stored after that moment, as `Store.at` takes it. None: all.
        until: only what was stored up to that moment. None: up to now.

    Raises:
        InvalidId, UnknownMoment: the session id is empty, or there is no such moment.
        PastErased: the session was erased after that moment.
        LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
    """
    async with aclosing(Writing(store, session_id, since, until).lines()) as lines:
        async for some in lines:
            yield some


class Writing:
    """One export under way: what it holds, and how much of it was yielded."""

    header: Header
    """Set with the first records."""

    manifest: bytes
    """The last line, set with it."""

    def __init__(
        self, store: Store, session_id: str | None, since: When | None, until: When | None
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._since = since
        self._moment = until
        self._places = Places()
        self._done: dict[int, int] = {}
        self.records: int = 0
        self.blobs: int = 0

    @property
    def exported(self) -> Exported:
        """What was written."""
        until, sha256 = LogPosition.parse(self.header.until), self._places.sha256
        return Exported(self.records, self.blobs, until, sha256 if self._places.lines else "")

    @property
    def progress(self) -> ExportProgress:
        """How far it is."""
        total = sum(reach.seq for reach in LogPosition.parse(self.header.until).shards)
        return ExportProgress(sum(self._done.values()), total, self.records, self.blobs)

    async def write(
        self, write: Callable[[bytes], object], on_progress: OnProgress | None = None
    ) -> None:
        """Call a function that blocks with the lines, some at a time."""
        async with aclosing(self.lines()) as lines:
            async for some in lines:
                await asyncio.to_thread(write, some)
                if on_progress is not None:
                    on_progress(self.progress)

    async def lines(self) -> AsyncGenerator[bytes]:
        """Yield the file's lines, some at a time."""
        async with aclosing(self.batches()) as batches:
            async for some in batches:
                yield await asyncio.to_thread(self._encoded, some)
        async with aclosing(self._blobs()) as blobs:
            async for each in blobs:
                self.blobs += 1
                yield self._places.placed(await asyncio.to_thread(encode_line, each))
        self.manifest = encode_line(Manifest(True, self.records, self.blobs, self._places.sha256))
        yield self.manifest

    async def batches(self) -> AsyncGenerator[list[LogRecord]]:
        """Yield the records, some at a time: first none, when the header is known."""
        source = await self._begin()
        some, size = list[LogRecord](), 0
        yield some
        async with aclosing(source.records(**self._which)) as records:
            async for record in records:
                some.append(record)
                size += len(record.data)
                if len(some) == _RECORDS or size > _BYTES:
                    yield self._counted(some)
                    some, size = [], 0
        yield self._counted(some)

    async def _begin(self) -> Store | Past:
        """Find the moments; return where to read."""
        store, after = self._store, None
        if self._since is not None:
            after = await store.at(self._since).position()
        until = await (store if self._moment is None else store.at(self._moment)).position()
        self._which: dict[str, Any] = {
            "session_id": self._session_id,
            "after": after,
            "until": until,
        }
        space = core_of(store).namespace
        begin = None if after is None else str(after)
        of = (space.name, space.shards, self._session_id, begin, str(until))
        self.header = Header(FORMAT, *of)
        # What belongs to a session may change, so as of then.
        return store if self._session_id is None else store.at(until)

    async def _blobs(self) -> AsyncGenerator[BlobLine]:
        source = self._store if self._session_id is None else self._store.at(self._which["until"])
        for ref in await blob_refs(source, **self._which):
            if (data := await blob(self._store, ref)) is not None:
                yield BlobLine(ref.name, data, ref.kind, ref.keys)

    def _counted(self, some: list[LogRecord]) -> list[LogRecord]:
        self.records += len(some)
        if some:
            self._done[some[-1].shard] = some[-1].seq
        return some

    def _encoded(self, some: list[LogRecord]) -> bytes:
        lines = [self._places.placed(encode_record(each)) for each in some]
        if not self._places.lines:
            lines.append(encode_line(self.header))
            self._places.add(lines[0])
        return b"".join(lines)
