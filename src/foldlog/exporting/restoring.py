"""Bringing an export into an empty namespace: every record at its sequence, with its bytes."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing, suppress
from itertools import groupby, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec

from foldlog.errors import ConfigurationError, LogCorrupt, Misuse
from foldlog.exporting.lines import BlobLine, decode_record
from foldlog.exporting.reading import Checked, check, is_blob, read, read_header
from foldlog.opening import Store
from foldlog.position import LogPosition
from foldlog.runs.starting import begins_a_run, wake_again, wake_at
from foldlog.store import LogRecord
from foldlog.store.blobs import BlobRef, blobs_in
from foldlog.store.copying import FILLER, end_restore, restore_blob, restore_records
from foldlog.store.core import core_of

_RECORDS: Final = 250


class RestoreProgress(NamedTuple):
    """How far an import is.

    Attributes:
        done: lines read.
        total: lines to read.
    """

    done: int
    total: int


class Restored(NamedTuple):
    """What an import brought.

    Attributes:
        records: records appended.
        present: records that an earlier import had brought.
        blobs: artifacts and other large values.
    """

    records: int
    present: int
    blobs: int


OnProgress = Callable[[RestoreProgress], None]


async def restore(
    store: Store, path: str | Path, *, on_progress: OnProgress | None = None
) -> Restored:
    """Bring an export into a store whose namespace is empty, and return what was brought.

    Every record gets its sequence, its bytes and its time, so that positions, earlier moments,
    forks and cursors mean what they meant, and what had expired stays so. Runs that sleep, and
    schedules, are woken at their times. The whole file is checked before anything is written. An
    interrupted restore continues when it is called again. Nobody else may write to the namespace
    meanwhile.

    Args:
        store: the store.
        path: the file: an export or a bundle.
        on_progress: called with a `RestoreProgress` now and then.

    Raises:
        ImportFailed: the file is no export, was cut or altered, or cannot be read. Nothing was
            written.
        Misuse: the namespace holds something else, or the store has an archive. Nothing was
            written.
        ConfigurationError: it has another number of shards. Nothing was written.
        PayloadError: what is in the file cannot stand in a log.
        PayloadTooLarge: the server takes smaller messages.
        AppendConflict: somebody else wrote.
        AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: restoring again continues.
        ReadOnlyStore, StoreClosed: the store is of the past, or closed.
    """
    path = Path(path)
    header = await asyncio.to_thread(read_header, path)
    heads = [reach.seq for reach in (await store.position()).shards]
    if len(heads) != header.shards:
        reason = f"{path} is of {header.shards} shard(s), the namespace has {len(heads)}"
        raise ConfigurationError(f"{reason}: connect with shards={header.shards}")
    await restore_records(store, 0, [])  # refuses what would refuse everything
    checked = await _checked(store, path, heads)
    ends = [reach.seq for reach in LogPosition.parse(header.until).shards]
    done = present = 0
    named: dict[str, set[BlobRef]] = defaultdict(set)
    started: set[tuple[str, ...]] = set()
    batches = _batches(path)
    while (some := await asyncio.to_thread(next, batches, None)) is not None:
        if isinstance(some, BlobLine):
            for ref in [some.ref] if some.kind else named.get(_content(some.blob), ()):
                await restore_blob(store, ref, some.data)
            done += 1
        else:
            if header.foldlog_export == 1:
                _note_contents(store, some, named)
            shard = some[0].shard
            started |= {each.keys for each in some if begins_a_run(each)}
            new = [each for each in some if each.seq > heads[shard]]
            await restore_records(store, shard, new)
            done, present = done + len(some), present + len(some) - len(new)
        if on_progress is not None:
            on_progress(RestoreProgress(done, checked.records + checked.blobs))
    for shard, end in enumerate(ends):
        await restore_records(store, shard, [], until=end)
    await end_restore(store)
    for session_id, run in started:
        with suppress(LogCorrupt):  # what cannot be read says so to who opens it
            await wake_again(store, session_id, run)
    for each in await store.queues.schedules():
        await wake_at(store, each.next, schedule=each.name)
    return Restored(checked.records - present, present, checked.blobs)


def _note_contents(
    store: Store, records: Iterable[LogRecord], named: dict[str, set[BlobRef]]
) -> None:
    """Note which views name a content, by its SHA-256: in format 1 only their records say it."""
    for record in records:
        kind = core_of(store).kinds.get(record.kind)
        if kind is not None and kind.has_blobs:
            with suppress(LogCorrupt, msgspec.MsgspecError):  # it comes as it is, without bytes
                for envelope in record.envelopes:
                    for name in blobs_in(kind, envelope):
                        named[_content(name)].add(BlobRef(record.kind, record.keys, name))


def _content(name: str) -> str:
    return name.partition("-")[0]


async def _checked(store: Store, path: Path, heads: list[int]) -> Checked:
    """Check a file, and that a namespace holds its beginning, or nothing."""
    theirs, own = hashlib.sha256(), hashlib.sha256()

    def compare(line: bytes) -> None:
        if not is_blob(line):
            record = decode_record(line)
            if record.shard < len(heads) and record.seq <= heads[record.shard]:
                _feed(theirs, record)

    checked = await asyncio.to_thread(check, path, compare if any(heads) else None)
    ends = [reach.seq for reach in LogPosition.parse(checked.header.until).shards]
    if any(heads):
        async with aclosing(store.records()) as records:
            async for record in records:
                if record.kind != FILLER:
                    _feed(own, record)
    is_part = all(head <= end for head, end in zip(heads, ends, strict=True))
    if not is_part or own.digest() != theirs.digest():
        name = core_of(store).namespace.name
        raise Misuse(
            f"the namespace {name!r:.80} is not empty, or its log is not new: "
            f"restore {path} into another one"
        )
    return checked


def _feed(digest: Any, record: LogRecord) -> None:
    place = (record.shard, record.seq, record.kind, record.keys, record.data)
    digest.update(msgspec.msgpack.encode(place))


def _batches(path: Path) -> Iterator[list[LogRecord] | BlobLine]:
    """Yield what a file holds: some records of one shard at a time. Blocks."""
    lines = read(path)
    for shard, some in groupby(lines, lambda e: None if isinstance(e, BlobLine) else e.shard):
        if shard is None:
            yield from cast(Iterator[BlobLine], some)
        while batch := list(islice(cast(Iterator[LogRecord], some), _RECORDS)):
            yield batch
