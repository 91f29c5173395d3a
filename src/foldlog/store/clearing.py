"""Clearing views: what they hold is read once, as it is stored, and then removed.

A cleared subject begins with a *tombstone*: the fold begins anew there, and drops what the writers
of the removed records had drafted up to then. What stands before it is purged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from foldlog.batches import in_batches, side_by_side
from foldlog.envelope import CLEARED, FORKED, Draft, Recorded, draft, upsert_id
from foldlog.errors import AppendConflict, LogCorrupt
from foldlog.kind import Key, Kind
from foldlog.log.blobs import BlobName
from foldlog.log.port import Append, Log
from foldlog.store.blobs import blobs_in
from foldlog.store.core import DECIDE_SECONDS, Core
from foldlog.store.decisions import Attempts
from foldlog.store.payloads import encode
from foldlog.subjects import Branch, Subject
from foldlog.views.fold import readable, salvage
from foldlog_projections.fold import Cleared, Folded, start, step

S = TypeVar("S")
T = TypeVar("T")

_WRITERS: Final = 1_000
"""Writers that a tombstone names at most: those that wrote last."""

_BURIED_AT_ONCE: Final = 250

_ATTEMPTS: Final = 3
"""How often a tombstone waits for a writer: from then on it stands wherever the view ends."""

_decode: Final = msgspec.msgpack.Decoder(Cleared).decode


class Prefix(NamedTuple):
    """All views of a kind whose keys begin with these, and go on."""

    kind: Kind[Any]
    keys: tuple[str, ...]


Area = Key[Any] | Prefix
"""One view, or all of a kind whose keys begin alike."""


Named = tuple[str, tuple[str, ...]]
"""The name of a kind, and keys."""


@dataclass(slots=True)
class Holding(Generic[S]):
    """What one view holds by itself, without what a fork shares with its origin.

    `head` is the sequence at which it ends, `tombstone` that of the tombstone with which it begins.
    `removed` has the counter of each writer's last draft, `blobs` the names of its large values,
    `pointers` the views that say where something of it is or was. `named_before` has what it named
    before a tombstone: it is stored until all of that is gone.
    `count` and `payload_bytes` are of the envelopes that take effect.
    """

    key: Key[S]
    folded: Folded[S]
    head: int = 0
    tombstone: int = 0
    is_forked: bool = False
    is_damaged: bool = False
    removed: dict[str, int] = field(default_factory=dict)
    refused: bytes = b""
    blobs: set[str] = field(default_factory=set)
    pointers: set[Named] = field(default_factory=set)
    named_before: dict[Named, None] = field(default_factory=dict)
    count: int = 0
    payload_bytes: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing but perhaps a tombstone."""
        return not (self.count or self.is_forked or self.is_damaged)

    @property
    def named(self) -> dict[Named, None]:
        """The views that it says are its session's, those of before a tombstone included."""
        owns = self.key.kind.owns
        now = () if owns is None else owns(self.folded.state)
        return self.named_before | dict.fromkeys(now)

    def take(self, envelope: Recorded) -> None:
        """Take in the next envelope, in the order of the log."""
        self.head = envelope.seq
        if envelope.writer:
            last = self.removed.pop(envelope.writer, 0)  # so that those that wrote last stand last
            self.removed[envelope.writer] = max(last, envelope.n)
        if envelope.type == CLEARED:
            with suppress(msgspec.MsgspecError):
                tombstone = _decode(envelope.payload)
                for writer, n in tombstone.removed.items():
                    self.removed[writer] = max(n, self.removed.get(writer, 0))
                self.refused += tombstone.refused
            self.tombstone, self.count, self.is_forked = envelope.seq, 0, False
            self.named_before = self.named
            self.blobs.clear()
            self.pointers.clear()
        elif envelope.type == FORKED:
            self.is_forked = True
        else:
            self.count += 1
            self.payload_bytes += len(envelope.payload)
            with suppress(msgspec.MsgspecError):  # what cannot be read goes all the same
                self.blobs.update(blobs_in(self.key.kind, envelope))
                if (pointers := self.key.kind.pointers) is not None:
                    self.pointers.update(pointers(self.key.kind.decode(envelope)))
        with suppress(msgspec.MsgspecError):
            step(self.key.kind, self.folded, envelope)


Buried = Mapping[Area, Sequence[Holding[Any]]]
"""What the views of areas held when their tombstones were appended."""

OnEnvelope = Callable[[Key[Any], Recorded], None]
"""Hears of each envelope that a view holds by itself."""


async def read_holdings(
    core: Core, area: Area, on_envelope: OnEnvelope | None = None, *, log: Log | None = None
) -> list[Holding[Any]]:
    """Read what views hold: all that can be read of it.

    Args:
        log: by which it is read. None: the one below forks, where a view holds its own alone.

    Raises:
        LogUnavailable, StoreClosed: the log did not answer.
    """
    found, log = dict[str, Holding[Any]](), log or core.log

    def take(name: str, key: Key[Any] | None, envelopes: Sequence[Recorded]) -> None:
        if name not in found:
            key = key or _key_at(core, area.kind, name, envelopes[0])
            found[name] = Holding(key, start(area.kind))
        for each in envelopes:
            found[name].take(each)
            if on_envelope is not None and each.type not in (CLEARED, FORKED):
                on_envelope(found[name].key, each)

    if isinstance(area, Key):
        subject = core.subject(area.kind, *area.keys)
        held = found[subject.name] = Holding(area, start(area.kind))
        try:
            async with aclosing(log.read(subject)) as whole:
                async for records in whole:
                    for record in records:
                        take(subject.name, area, record.envelopes)
        except LogCorrupt:
            held = found[subject.name] = Holding(area, start(area.kind), is_damaged=True)
            async with aclosing(readable(log, subject)) as pages:
                async for envelopes in pages:
                    take(subject.name, area, envelopes)
        return [held]
    try:
        async with aclosing(log.read(where(core, area))) as branch:
            async for records in branch:
                for record in records:
                    take(record.subject, None, record.envelopes)
    except LogCorrupt:
        keys = await core.keys(area.kind, area.keys)
        each = await side_by_side(keys, lambda key: read_holdings(core, key, on_envelope, log=log))
        return [holding for [holding] in each]
    return list(found.values())


async def clear(
    core: Core,
    areas: Sequence[Area],
    *,
    overwrite: bool = True,
    check: Callable[[Any], None] | None = None,
    on_envelope: OnEnvelope | None = None,
    always: bool = False,
) -> list[Holding[Any]]:
    """Remove views of one shard with their large values and entries; return what they held.

    Clearing again finishes what was interrupted.

    Args:
        overwrite: see `Log.purge`.
        check, on_envelope, always: see `bury`.

    Raises:
        LogUnavailable, LogCorrupt, AppendUnknown: some may remain; clearing again is safe.
    """
    buried = await bury(core, areas, check=check, on_envelope=on_envelope, always=always)
    await purge(core, buried, overwrite=overwrite, on_envelope=on_envelope)
    return [each for holdings in buried.values() for each in holdings]


async def bury(
    core: Core,
    areas: Sequence[Area],
    *,
    check: Callable[[Any], None] | None = None,
    on_envelope: OnEnvelope | None = None,
    always: bool = False,
) -> Buried:
    """Have views of one shard begin anew, all at once; return what they held.

    1. Read what they hold; remove their pointers, and large values that no record names. 2. Append
    a tombstone to each, where the reading ended, and take it off its lists: up to 250 at once, so
    that what is saved in several of them together goes as a whole, or stays. Views that are written
    to all the time get their tombstones wherever they end; of what came in between, late repeats
    and large values may remain.

    Args:
        check: is given the state of a single view; what it raises is raised, and nothing is
            removed.
        on_envelope: hears of each envelope, and again after a conflict.
        always: append tombstones also where nothing is held.

    Raises:
        LogUnavailable, LogCorrupt, AppendUnknown: some may have begun anew.
    """
    attempts, heads, count = Attempts(DECIDE_SECONDS), list[int](), 0
    blobs = core.backend.blobs
    stored = [
        await blobs.names(where(core, area).name, partial=True) if area.kind.has_blobs else []
        for area in areas
    ]
    while True:
        found = await side_by_side(areas, lambda area: read_holdings(core, area, on_envelope))
        read = [each for holdings in found for each in holdings]
        if check is not None:
            check(read[0].folded.state)
        # Where a subject ends with what cannot be read, nobody knows where it ends.
        before_conflict, heads = heads, [each.head for each in read]
        try:
            loose = [_loose(core, *each) for each in zip(stored, found, strict=True)]
            # Their saves have died, or store them again when their records are there.
            await side_by_side(chain(*loose), lambda each: blobs.delete(*each))
            if check is None:  # else it may yet refuse, after a conflict
                await _remove_pointers(core, read)
            going = [
                each
                for names, holdings in zip(loose, found, strict=True)
                if always or names or not all(held.is_empty for held in holdings)
                for each in holdings
            ]
            may_wait = check is not None or count < _ATTEMPTS
            await _append_tombstones(core, going, is_known=may_wait and before_conflict != heads)
            break
        except AppendConflict as conflict:
            count += 1
            await attempts.pause(conflict)
    if check is not None:
        await _remove_pointers(core, read)
    return dict(zip(areas, found, strict=True))


async def purge(
    core: Core,
    buried: Buried,
    *,
    overwrite: bool = True,
    on_envelope: OnEnvelope | None = None,
) -> None:
    """Purge what stands before tombstones, and large values that it named. Errors as `clear`."""

    async def purge_area(which: tuple[Area, Sequence[Holding[Any]]]) -> None:
        area, holdings = which
        before = min((each.tombstone for each in holdings), default=0)
        if not before:
            return
        for key in await _begun_since(core, area, holdings, before):  # else without a trace
            await clear(core, [key], overwrite=overwrite, on_envelope=on_envelope)
        await core.forked_log.purge(where(core, area), before=before, overwrite=overwrite)
        if not area.kind.latest_only:
            for each in holdings:
                await core.hot_views.forget(_subject(core, each), overwrite=overwrite)
        # Not all that are there: somebody may save anew by now.
        named = [(_subject(core, each).name, name) for each in holdings for name in each.blobs]
        await side_by_side(named, lambda each: core.backend.blobs.delete(*each))

    await side_by_side(buried.items(), purge_area)


def _loose(
    core: Core, stored: Sequence[BlobName], holdings: Sequence[Holding[Any]]
) -> list[BlobName]:
    """The large values that were there before the views were read, and that no record names."""
    named = {(_subject(core, each).name, name) for each in holdings for name in each.blobs}
    return [each for each in stored if each not in named]


def _subject(core: Core, held: Holding[Any]) -> Subject:
    return core.subject(held.key.kind, *held.key.keys)


async def _remove_pointers(core: Core, holdings: Iterable[Holding[Any]]) -> None:
    """Remove the views that only say where something is, without a trace."""

    async def remove(pointer: tuple[str, tuple[str, ...]]) -> None:
        name, keys = pointer
        subject = core.subject(name, *keys)
        if last := await core.forked_log.last(subject):
            await core.forked_log.purge(subject, before=last.seq + 1)

    await side_by_side({pair for each in holdings for pair in each.pointers}, remove)


async def _begun_since(
    core: Core, area: Area, holdings: Iterable[Holding[Any]], before: int
) -> list[Key[Any]]:
    """The views of an area that began after it was read and before a sequence: few, if any."""
    if isinstance(area, Key):
        return []
    heads = {each.key: each.head for each in holdings}
    began, branch = dict[Key[Any], None](), where(core, area)
    scan = core.forked_log.scan(branch.shard, after=max(heads.values()), only=[branch.name])
    async with aclosing(scan) as pages:
        async for page in pages:
            for stored in page:
                if stored.seq < before:
                    with suppress(LogCorrupt):
                        [first, *_] = stored.record().envelopes
                        began[_key_at(core, area.kind, stored.subject, first)] = None
    return [key for key in began if key not in heads]


async def bury_unread(core: Core, subjects: Iterable[Subject]) -> None:
    """Append a tombstone that remembers nothing to each subject; what stands before stays."""
    for some in in_batches([*subjects], _BURIED_AT_ONCE):
        buried = [Append(each, (_tombstone(Cleared()),)) for each in some]
        await core.append_at_once(buried, atomic=False)


async def _append_tombstones(
    core: Core, holdings: Sequence[Holding[Any]], *, is_known: bool
) -> None:
    """Append tombstones, and note where they stand; `is_known`: only where the reading ended.

    Raises:
        AppendConflict: one of the views has grown.
    """
    for some in in_batches(holdings, _BURIED_AT_ONCE):
        appends = []
        for each in some:
            expect = each.head if is_known else None
            appends.append(Append(_subject(core, each), (_tombstone_of(each),), expect))
        going = {append.subject for append in appends}
        off = [
            append
            for each in some
            for append in await _off_lists(core, each)
            if append.subject not in going  # a list that goes itself needs no note
        ]
        seqs = await core.append_at_once([*appends, *off])
        for each, seq in zip(some, seqs, strict=False):
            each.tombstone = seq


async def _off_lists(core: Core, held: Holding[Any]) -> list[Append]:
    """What takes a view off the lists that it stands in."""
    appends = []
    for listing in held.key.kind.listed:
        keys: tuple[str, ...] | None
        if listing.keys is None:
            shard = core.subject(held.key.kind, *held.key.keys).shard
            keys = (core.log.namespace.key_on(shard, listing.list.name),)
        else:
            keys = listing.keys(held.key.keys, held.folded.state)
        if keys is None:
            continue
        listed = (await read_what_can_be(core, listing.list, *keys)).state
        if records := listing.off(held.key.keys, listed):
            drafts = tuple(encode(listing.list, each) for each in records)
            appends.append(Append(core.subject(listing.list, *keys), drafts))
    return appends


def _tombstone_of(held: Holding[Any]) -> Draft:
    remains = held.key.kind.remains
    left = b"" if remains is None else remains[0](held.folded.state)
    writers = list(held.removed.items())[-_WRITERS:]
    return _tombstone(Cleared(held.refused, left, dict(writers)))


def _tombstone(cleared: Cleared) -> Draft:
    body = msgspec.msgpack.encode(cleared)
    return draft(CLEARED, body, id=upsert_id(body))


def where(core: Core, area: Area) -> Subject | Branch:
    """Return the subject of one view, or the branch of many."""
    if isinstance(area, Key):
        return core.subject(area.kind, *area.keys)
    return core.forked_log.namespace.branch(area.kind.family, *area.keys)


def _key_at(core: Core, kind: Kind[Any], name: str, envelope: Recorded) -> Key[Any]:
    subject = core.log.namespace.parse(name)
    keys = subject.keys if subject is not None else tuple(envelope.keys or ())
    if not keys:
        raise LogCorrupt(name, envelope.seq, "the keys of a hashed subject are missing")
    return Key(kind, keys)


async def read_what_can_be(core: Core, kind: Kind[S], *keys: str) -> Folded[S]:
    """Read a view strongly, of all that can be read where some of it cannot."""
    try:
        return await core.read(kind, *keys, consistency="strong")
    except LogCorrupt:
        return await salvage(core.forked_log, kind, core.subject(kind, *keys))
