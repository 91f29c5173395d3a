"""Tombstones: subjects that are emptied, and stay empty when a late writer retries.

A cleared subject gets a `subject.cleared` envelope, its tombstone, with the hashes of all ids that
it held; then what stands before it is purged. The fold begins anew at the tombstone, whether or not
the purge has happened, so no moment shows half of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final, TypeVar, cast

import msgspec

from foldlog.envelope import CLEARED, Draft, draft, upsert_id
from foldlog.errors import AppendConflict, AppendUnknown, LogCorrupt
from foldlog.kind import Key
from foldlog.log.port import Append
from foldlog.store.primitives import At, Decided, Primitives
from foldlog.subjects import Subject
from foldlog.views.salvage import salvage
from foldlog_projections.fold import Cleared, Folded, clearing

S = TypeVar("S")

_BURIED_AT_ONCE: Final = 250
_FORGETTING: Final = msgspec.msgpack.encode(Cleared(b""))
"""The payload of a tombstone that remembers nothing."""


async def clear_view(
    store: Primitives,
    key: Key[S],
    *,
    remember: bool = True,
    also: Sequence[Append] = (),
    head: int | None = None,
    overwrite: bool = True,
) -> S:
    """Empty a view, and return what it held.

    Args:
        remember: what it held is refused from now on; else it may be saved again.
        also: appended in the same moment, if there is anything to empty.
        head: empty it only if it ends there.
        overwrite: see `Log.purge`.

    Raises:
        AppendConflict: it ends elsewhere than at `head`. It was not emptied.
        LogUnavailable, AppendUnknown: it may not be cleared; clearing again is safe.
    """
    subject = store.subject(key.kind, *key.keys)
    held: Any = None
    before = 0

    def decide(at: At) -> dict[Key[Any], Decided]:
        nonlocal held, before
        folded, end = at
        if head not in (None, end):
            raise AppendConflict(subject.name, head or 0, end)
        held = folded.state
        tombstones = _tombstones(folded, remember)
        if not folded.seen and end < folded.cleared_at + len(tombstones):
            before = folded.cleared_at  # an interrupted clearing may not have purged
            return {}
        # Else it holds something, or the bytes of late writers that no fold has let in.
        before = end + 1
        return {key: Decided(tombstones, None)}

    try:
        await store.decide_drafts([key], decide, in_atomic="at once", also=also)
    except LogCorrupt:
        # What cannot be read goes unread; what can be is remembered.
        folded = await salvage(store.forked_log, key.kind, subject)
        held = folded.state
        before = (await store.forked_log.heads())[subject.shard] + 1
        await store.append_atomically([Append(subject, _tombstones(folded, remember)), *also])
    if before:
        # In this order: a writer of snapshots looks afterwards whether the log begins as it did.
        await store.forked_log.purge(subject, before=before, overwrite=overwrite)
        await store.hot_views.forget(subject)
    return cast(S, held)


async def bury(store: Primitives, subjects: Iterable[Subject]) -> list[int]:
    """Append a tombstone that remembers nothing to each subject, unread; return their sequences.

    What stands before is left to be purged.

    Raises:
        LogUnavailable, AppendUnknown: some may have theirs; doing it again is safe.
    """
    tombstone = _tombstone(_FORGETTING)
    found, waiting = list[int](), iter(subjects)
    while some := list(islice(waiting, _BURIED_AT_ONCE)):
        appends = [Append(subject, (tombstone,)) for subject in some]
        try:
            seqs = await store.forked_log.append(appends)
        except (AppendUnknown, asyncio.CancelledError):
            store.unsettled(appends)
            raise
        for subject, seq in zip(some, seqs, strict=True):
            store.hot_views.acked(subject, seq)
        found += seqs
    return found


def _tombstones(folded: Folded[Any], remember: bool) -> tuple[Draft, ...]:
    return tuple(map(_tombstone, (remember and clearing(folded)) or [_FORGETTING]))


def _tombstone(body: bytes) -> Draft:
    return draft(CLEARED, body, id=upsert_id(body))
