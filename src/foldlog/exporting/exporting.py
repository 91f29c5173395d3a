"""Writing an export: what the log held at one moment, while others write on."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from foldlog.errors import UnknownMoment
from foldlog.exporting.lines import FORMAT, BlobLine, End, Header, encode_line, encode_record
from foldlog.exporting.part import Part, Progress
from foldlog.opening import Store
from foldlog.position import LogPosition, Reach
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
        sha256: the SHA-256 of the file's lines.
    """

    records: int
    blobs: int
    until: LogPosition
    sha256: str


OnProgress = Callable[[ExportProgress], None]
Something = list[LogRecord] | BlobLine


async def export(
    store: Store,
    path: str | Path,
    *,
    session_id: str | None = None,
    since: When | None = None,
    until: When | None = None,
    on_progress: OnProgress | None = None,
) -> Exported:
    """Write what a log holds to a file of JSON lines, and return what was written.

    The file has its name when it is whole; until then it is `<path>.part`. Called with the same
    arguments within six hours, an export that was interrupted continues. What is saved meanwhile is
    not part of it; what is erased meanwhile may be.

    Args:
        store: the store.
        path: the file. A name that ends in `.gz` has it compressed.
        session_id: only what erasing this session would remove. None: all.
        since: only what was stored after that moment, as `Store.at` takes it. None: all.
        until: only what was stored up to that moment. None: up to now.
        on_progress: called with an `ExportProgress` now and then.

    Raises:
        ConfigurationError: the file cannot be written, or another process writes it.
        InvalidId, UnknownMoment: the session id is empty, or there is no such moment.
        LogUnavailable, LogCorrupt: the log did not answer, or cannot be read. The next export
            continues.
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
    which: dict[str, Any] = {"session_id": session_id, "since": since, "until": until}
    return await export_records(store, Path(path), on_progress=on_progress, **which)


async def export_records(
    store: Store,
    path: Path,
    *,
    session_id: str | None,
    since: When | None,
    until: When | None,
    blobs: bool = True,
    on_progress: OnProgress | None = None,
) -> Exported:
    """See `export`; without `blobs`, the records alone."""
    part = await asyncio.to_thread(Part, path)
    try:
        asked = {
            "namespace": core_of(store).namespace.name,
            "session_id": session_id,
            "since": None if since is None else str(since),
            "until": None if until is None else str(until),
        }
        progress = await asyncio.to_thread(part.resume, asked)
        if progress is None or not await _is_of(store, progress.header):
            header = await _header(store, session_id, since, until)
            progress = Progress(asked, header)
            await asyncio.to_thread(part.begin, header)
        async with aclosing(_contents(store, progress, blobs)) as contents:
            async for some in contents:
                progress = await asyncio.to_thread(_write, part, some, progress)
                if on_progress is not None:
                    on_progress(_told(progress))
        end = End(True, progress.records, progress.blobs, part.sha256)
        await asyncio.to_thread(_finish, part, end)
    finally:
        await asyncio.to_thread(part.close)
    position = LogPosition.parse(progress.header.until)
    return Exported(progress.records, progress.blobs, position, end.sha256)


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
        LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
    """
    header = await _header(store, session_id, since, until)
    digest, records, blobs = hashlib.sha256(), 0, 0
    line = encode_line(header)
    digest.update(line)
    yield line
    async with aclosing(_contents(store, Progress({}, header))) as contents:
        async for some in contents:
            line = await asyncio.to_thread(_encoded, some)
            digest.update(line)
            records, blobs = records + _count(some), blobs + isinstance(some, BlobLine)
            yield line
    yield encode_line(End(True, records, blobs, digest.hexdigest()))


async def _header(
    store: Store, session_id: str | None, since: When | None, until: When | None
) -> Header:
    after = None if since is None else str(await store.at(since).position())
    ends = await (store if until is None else store.at(until)).position()
    namespace = core_of(store).namespace
    return Header(FORMAT, namespace.name, namespace.shards, session_id, after, str(ends))


async def _is_of(store: Store, header: Header) -> bool:
    """Whether the log is the one that a header was written of."""
    try:
        await store.at(LogPosition.parse(header.until))
    except UnknownMoment:
        return False
    return True


async def _contents(
    store: Store, progress: Progress, blobs: bool = True
) -> AsyncGenerator[Something]:
    """Yield what comes after what was written: records, some at a time, and blobs."""
    header = progress.header
    until = LogPosition.parse(header.until)
    after = None if header.after is None else LogPosition.parse(header.after)
    begins = (Reach(0),) * header.shards if after is None else after.shards
    reached = list(until.shards[: progress.shard] + begins[progress.shard :])
    if progress.seq:
        reached[progress.shard] = Reach(progress.seq)
    since = LogPosition(tuple(reached))
    some, size = list[LogRecord](), 0
    found = store.records(session_id=header.session_id, after=since, until=until)
    async with aclosing(found) as records:
        async for record in records:
            some.append(record)
            size += len(record.data)
            if len(some) == _RECORDS or size > _BYTES:
                yield some
                some, size = [], 0
    yield some
    if not blobs:
        return
    which = await blob_refs(store, session_id=header.session_id, after=after, until=until)
    for ref in which:
        is_new = progress.blob is None or ref > progress.blob
        if is_new and (data := await blob(store, ref)) is not None:
            yield BlobLine(ref.name, data, ref.kind, ref.keys)


def _write(part: Part, some: Something, progress: Progress) -> Progress:
    part.write(_encoded(some))
    if isinstance(some, BlobLine):
        progress = replace(progress, blob=some.ref, blobs=progress.blobs + 1)
    elif some:
        last = some[-1]
        records = progress.records + len(some)
        progress = replace(progress, shard=last.shard, seq=last.seq, records=records)
    return part.sync(progress) if part.is_due else progress


def _encoded(some: Something) -> bytes:
    if isinstance(some, BlobLine):
        return encode_line(some)
    return b"".join(map(encode_record, some))


def _count(some: Something) -> int:
    return len(some) if isinstance(some, Sequence) else 0


def _finish(part: Part, end: End) -> None:
    part.write(encode_line(end))
    part.finish()


def _told(progress: Progress) -> ExportProgress:
    ends = [reach.seq for reach in LogPosition.parse(progress.header.until).shards]
    done = sum(ends[: progress.shard]) + progress.seq
    return ExportProgress(done, sum(ends), progress.records, progress.blobs)
