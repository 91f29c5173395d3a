"""Tombstones: a cleared subject begins with the hashes of all ids that it held, and refuses them.

What stands before a tombstone is purged. The fold begins anew at the tombstone, whether or not the
purge has happened, so no moment shows half of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar, cast

import msgspec

from foldlog.envelope import CLEARED, Draft, draft, upsert_id
from foldlog.errors import AppendConflict, LogCorrupt
from foldlog.kind import Key
from foldlog.log.port import Append
from foldlog.store.primitives import At, Decided, Primitives
from foldlog.subjects import Subject
from foldlog.views.fold import salvage
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
    check: Callable[[S], None] | None = None,
) -> S:
    """Empty a view, and return what it held.

    Args:
        remember: what it held is refused from now on; else it may be saved again.
        also: appended in the same moment, if there is anything to empty.
        head: empty it only if it ends there.
        overwrite: see `Log.purge`.
        check: is given what the view holds; what it raises is raised, and nothing is emptied.
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
        if check is not None:
            check(held)
        tombstones = _tombstones(key, folded, remember)
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
        await store.append_atomically([Append(subject, _tombstones(key, folded, remember)), *also])
    if before:
        # In this order: a writer of snapshots looks afterwards whether the log begins as it did.
        await store.forked_log.purge(subject, before=before, overwrite=overwrite)
        await store.hot_views.forget(subject, overwrite=overwrite)
    return cast(S, held)


async def bury(
    store: Primitives, subjects: Iterable[Subject], *, ends: Mapping[Subject, int] | None = None
) -> list[int]:
    """Append a tombstone that remembers nothing to each subject, unread; return their sequences.

    What stands before is left to be purged.

    Args:
        ends: where the subjects end, all of one shard; AppendConflict if one ends elsewhere.
            None: wherever that is.
    """
    tombstone = _tombstone(_FORGETTING)
    found, waiting = list[int](), iter(subjects)
    while some := list(islice(waiting, _BURIED_AT_ONCE)):
        appends = [Append(each, (tombstone,), ends.get(each) if ends else None) for each in some]
        found += await store.append_each(appends, atomic=ends is not None)
    return found


def _tombstones(key: Key[Any], folded: Folded[Any], remember: bool) -> tuple[Draft, ...]:
    remains = b"" if key.kind.remains is None else key.kind.remains[0](folded.state)
    return tuple(map(_tombstone, clearing(folded, remains, remember=remember)))


def _tombstone(body: bytes) -> Draft:
    return draft(CLEARED, body, id=upsert_id(body))
