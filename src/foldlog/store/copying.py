"""What copying a whole log to another one takes, beside its records: blobs, and writing records."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from foldlog.envelope import CLEARED, draft, pack
from foldlog.errors import Misuse, PayloadError
from foldlog.position import LogPosition
from foldlog.store.blobs import BlobRef, blobs_in, digest
from foldlog.store.core import Capability, Core, core_of
from foldlog.store.operation import operation
from foldlog.store.records import LogRecord, Records
from foldlog.subjects import Subject

FILLER: Final = "filler"
"""A family without a view: stands where a log that is restored has no records."""

_FILLED: Final = pack([draft(CLEARED, b"\xc0", id="filler", ts=0.0)])
_FAMILY: Final = re.compile(r"[a-z][a-z0-9_]*")
_TIME: Final = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9:]{8}(\.[0-9]{1,9})?(Z|\+00:00)")
_BLOB: Final = re.compile(r"[0-9a-f]{64}-[A-Za-z0-9_]+")
_Placed = tuple[Subject, bytes, str]
"""A record to restore: its subject, its bytes and its time."""

_MESSAGES: Final = 1_000
_BYTES: Final = 4 * 1024 * 1024


async def blob_refs(
    store: Records,
    *,
    session_id: str | None = None,
    after: LogPosition | None = None,
    until: LogPosition | None = None,
) -> list[BlobRef]:
    """Return the large values that those records name that `records` yields for the same
    arguments, sorted. Errors as `records`.
    """
    core = core_of(store)
    kinds = [kind.name for kind in core.kinds.values() if kind.has_blobs]
    options: dict[str, Any] = {"session_id": session_id, "after": after, "until": until}
    found = set[BlobRef]()
    async for record in store.records(kinds=kinds, **options):
        for envelope in record.envelopes:
            for name in blobs_in(core.kinds[record.kind], envelope):
                found.add(BlobRef(record.kind, record.keys, name))
    return sorted(found)


async def blob(store: Capability, ref: BlobRef) -> bytes | None:
    """Return a large value; None if it was removed since.

    Raises:
        LogUnavailable: it could not be read. LogCorrupt: it is not there whole.
    """
    core = core_of(store)
    return await core.backend.blobs.get(core.subject(ref.kind, *ref.keys).name, ref.name)


@operation(writes=True)
async def restore_blob(store: Capability, ref: BlobRef, data: bytes) -> None:
    """Store what `blob` returned for that value, perhaps of another store.

    Raises:
        PayloadError: the name is not that of these bytes. Others as `restore`.
    """
    if not _BLOB.fullmatch(ref.name):
        raise PayloadError("name", f"{ref.name!r:.80} is no name of a blob")
    if not ref.name.startswith(f"{await digest(data)}-"):
        raise PayloadError(ref.name, "the bytes are not those that the name tells")
    if not _FAMILY.fullmatch(ref.kind) or not ref.keys:
        raise PayloadError(ref.name, "it belongs to no view")
    core = core_of(store)
    await core.backend.blobs.put(core.subject(ref.kind, *ref.keys).name, ref.name, data)


@operation(writes=True)
async def restore_records(
    store: Capability, shard: int, records: Sequence[LogRecord], *, until: int | None = None
) -> int:
    """Append records of another log to one shard: the same bytes at the same sequences, with the
    times that they had there.

    For copies and backups (`foldlog.exporting`): nothing is redacted, nor decided. Where
    sequences are missing, records of no kind fill them; `end_restore` removes those. Nobody
    else may write to the namespace meanwhile.

    Args:
        records: of that shard, in order, and all behind its end. Their keys and kinds count,
            not the namespace that they come from.
        until: the sequence to fill the shard up to. None: that of the last record.

    Returns:
        The sequence at which the shard ends.

    Raises:
        PayloadError: a record cannot stand there. Misuse: the store was opened with
            an archive. In both cases nothing was appended.
        AppendConflict: somebody else wrote. LogUnavailable, AppendFailed, AppendUnknown: some
            may be appended: go on behind the end of the shard.
    """
    core = core_of(store)
    if core.backend.archiver is not None:
        raise Misuse("open the store without archive= to restore a log into it")
    log = core.forked_log
    end = (await log.heads())[shard]
    placed = _placed(core, shard, records, end)
    upto = max(end, until or 0, records[-1].seq if records else 0)
    for chunk in _chunks(_filled(placed, end, upto, _filler(core, shard))):
        await log.restore(shard, chunk, after=end)
        end += len(chunk)
    return end


@operation(writes=True)
async def end_restore(store: Capability) -> None:
    """Remove what `restore` filled missing sequences with; views are read anew.

    Raises:
        LogUnavailable: some of it may remain; calling again is safe.
    """
    core = core_of(store)
    heads = await core.forked_log.heads()
    for shard, head in enumerate(heads):
        await core.forked_log.purge(_filler(core, shard), before=head + 1, overwrite=False)
    await core.hot_views.drop()


def _filler(core: Core, shard: int) -> Subject:
    return core.subject(FILLER, core.namespace.key_on(shard, FILLER))


def _placed(core: Core, shard: int, records: Sequence[LogRecord], end: int) -> dict[int, _Placed]:
    placed: dict[int, _Placed] = {}
    for each in records:
        where = f"record {each.seq} of shard {each.shard}"
        known = core.kinds.get(each.kind)
        is_of_storage = known is not None and known.of_storage
        if not _FAMILY.fullmatch(each.kind) or each.kind == FILLER or is_of_storage:
            raise PayloadError(where, f"{each.kind!r:.80} is no kind of records to restore")
        if not each.keys:
            raise PayloadError(where, "it has no keys")
        subject = core.subject(each.kind, *each.keys)
        if not shard == each.shard == subject.shard:
            raise PayloadError(where, f"its keys belong to shard {subject.shard}")
        if each.seq <= end:
            raise PayloadError(where, f"it should come behind sequence {end}")
        if not _is_time(each.time):
            raise PayloadError(where, f"its time {each.time!r:.40} is not RFC 3339 in UTC")
        placed[each.seq] = subject, each.data, each.time
        end = each.seq
    return placed


def _is_time(text: str) -> bool:
    """Whether a text is a time as a log has them."""
    with suppress(ValueError):
        return bool(_TIME.fullmatch(text) and dt.datetime.fromisoformat(text))
    return False


def _filled(placed: dict[int, _Placed], end: int, upto: int, filler: Subject) -> Iterator[_Placed]:
    """Yield what stands at each sequence from `end` on."""
    for seq in range(end + 1, upto + 1):
        yield placed.get(seq) or (filler, _FILLED, "")


def _chunks(records: Iterator[_Placed]) -> Iterator[list[_Placed]]:
    """Cut records into what one append takes."""
    chunk: list[_Placed] = []
    size = 0
    for each in records:
        if chunk and (len(chunk) == _MESSAGES or size + len(each[1]) > _BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(each)
        size += len(each[1])
    if chunk:
        yield chunk
