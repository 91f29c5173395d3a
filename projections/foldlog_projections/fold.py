"""What every fold shares: repeats and overtaken saves are dropped, cleared subjects stay cleared.

A projection sees each id once, and never a save that arrives after a later one of the same writer,
so that no fold needs to think of retries.

A clearing names, for each writer, the last of its drafts that was removed. What that writer drafted
up to then is a late repeat, or was saved while the clearing went on: it has no effect. Everything
that was drafted later takes effect, whatever its id and its content are.
"""

from __future__ import annotations

import copy
import hashlib
import struct
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

import msgspec

from foldlog.envelope import CLEARED, FORKED, Recorded, content_id
from foldlog.kind import Kind
from foldlog.upcasting import UPCASTERS
from foldlog_projections.items import Items

S = TypeVar("S")

_DIGEST: Final = struct.Struct("<I")
"""A digest among those of a fold."""

_WRITERS_REMEMBERED: Final = 16
"""Writers of one key whose last counter a fold remembers: the latest ones."""

_CONFLICTS_REMEMBERED: Final = 1024
_IDS_REMEMBERED: Final = 16
"""Ids that a fold for which repeats are harmless remembers at most."""

_REFUSAL_BYTES: Final = 8
_encode: Final = msgspec.msgpack.Encoder().encode


Replaced = str | int | tuple[str | int | None, ...]
"""What an envelope replaces: a key inside the subject."""


class EqualByBytes:
    """States that are equal if they encode alike, since NaN differs from NaN, and 1 equals True."""

    __slots__ = ()
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # they change

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _encode(self) == _encode(other)


class Cleared(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of `subject.cleared`.

    `removed` has the counter of the last draft of each writer that was removed. `remains` is what
    the projection leaves of its state. `refused` stands in logs of before: 8-byte hashes of the
    ids that were removed, which writers that did not know of the clearing could not save again.
    """

    refused: bytes = b""
    remains: bytes = b""
    removed: dict[str, int] = {}


class Conflict(NamedTuple):
    """An envelope whose id stood for other content already: it had no effect.

    `stored` and `given` are digests of the two contents.
    """

    id: str
    stored: int
    given: int


@dataclass(slots=True)
class Folded(Generic[S]):
    """A projection's state, and the ids that it has applied.

    `seen` maps an envelope id to its ordinal since the last clearing, which stands at sequence
    `cleared_at` (0: there was none). Of a `latest_only` projection it has sequences, and may lack
    some. `count` is how many envelopes took part since then. `digests` are those of the contents by
    ordinal, where ids do not follow from contents. `conflicts` has, by writer and counter, the
    latest envelopes whose id stood for something else.

    `newest` has, for each replaced key, the writers that replaced it last, each with the counter
    of its last draft. `barred` has the writers whose drafts were cleared, each with the counter of
    the last one. `refused`: see `Cleared`.
    """

    state: S
    seen: dict[str, int] = field(default_factory=dict)
    cleared_at: int = 0
    newest: dict[Replaced, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    barred: dict[str, int] = field(default_factory=dict)
    digests: bytearray = field(default_factory=bytearray)
    conflicts: dict[tuple[str, int], Conflict] = field(default_factory=dict)
    refused: frozenset[bytes] = frozenset()
    count: int = 0


def start(projection: Kind[S]) -> Folded[S]:
    """The fold of nothing."""
    return Folded(projection.initial())


def copied(projection: Kind[S], state: Any) -> Any:
    """A state that shares nothing with the given one."""
    if isinstance(state, Items):
        return state.copy()
    if state is None or isinstance(state, Recorded):
        return state
    if projection.keep is None or projection.restore is None:
        return copy.deepcopy(state)
    return projection.restore(projection.keep(state))


def copied_fold(projection: Kind[S], folded: Folded[S]) -> Folded[S]:
    """A fold that shares nothing with the given one."""
    return replace(
        folded,
        state=copied(projection, folded.state),
        seen=dict(folded.seen),
        newest=dict(folded.newest),
        barred=dict(folded.barred),
        digests=folded.digests[:],
        conflicts=dict(folded.conflicts),
    )


def step(projection: Kind[S], folded: Folded[S], envelope: Recorded) -> bool:
    """Fold one envelope in. Return whether it took effect."""
    type = envelope.type
    if envelope.v != UPCASTERS.newest.get(type, 1):
        envelope = UPCASTERS.bring_up(envelope)
    if type == CLEARED:
        _clear(projection, folded, envelope)
        return True
    if type == FORKED:
        return False  # the records that it leads to were folded before it
    if (folded.barred or folded.refused) and _is_barred(folded, envelope):
        return False
    id, seen, latest_only = envelope.id, folded.seen, projection.latest_only
    digest_of = projection.digest_of
    digest = None if digest_of is None else digest_of(type)(envelope.payload)
    at = seen.get(id)
    # A load that takes the latest only has not looked at what its writer knew of already.
    if at is not None and (not latest_only or at > envelope.known):
        if digest is not None and digest != (stored := digest_at(folded, at)):
            _note_conflict(folded, envelope, stored, digest)
        return False
    try:
        replaces = projection.replaces
        replaced: Any = None if replaces is None or envelope.writer == "" else replaces(envelope)
        is_overtaken = replaced is not None and _is_overtaken(replaced, folded, envelope)
        if not is_overtaken:
            folded.state = projection.apply(folded.state, envelope)
    except msgspec.MsgspecError:
        raise
    except Exception as fault:  # the fold may be the caller's code, which may raise anything
        raise msgspec.ValidationError(f"{projection.name}, {type}: {fault!r}") from fault
    if projection.forgets_ids:
        if len(seen) >= _IDS_REMEMBERED:
            seen.clear()
        if isinstance(folded.state, dict) and replaced not in folded.state:
            folded.newest.pop(replaced, None)
    seen[id] = envelope.seq if latest_only else folded.count
    folded.count += 1
    if digest is not None:
        folded.digests += _DIGEST.pack(digest)
    return not is_overtaken


def digest_at(folded: Folded[Any], ordinal: int) -> int:
    """Return the digest of the content that a fold has at an ordinal."""
    (found,) = _DIGEST.unpack_from(folded.digests, ordinal * _DIGEST.size)
    return int(found)


def _is_overtaken(replaced: Replaced, folded: Folded[Any], envelope: Recorded) -> bool:
    """Whether its writer has replaced that key already; if not, note that it does so now."""
    writer, n = envelope.writer, envelope.n
    writers = folded.newest.get(replaced, ())
    if writers and (len(writers) > 1 or writers[0][0] != writer):
        for other, last in writers:
            if other == writer and n < last:
                return True
        others = [each for each in writers if each[0] != writer]
        folded.newest[replaced] = (*others[1 - _WRITERS_REMEMBERED :], (writer, n))
        return False
    if writers and n < writers[0][1]:
        return True
    folded.newest[replaced] = ((writer, n),)
    return False


def _note_conflict(folded: Folded[Any], envelope: Recorded, stored: int, given: int) -> None:
    folded.conflicts[envelope.writer, envelope.n] = Conflict(envelope.id, stored, given)
    if len(folded.conflicts) > _CONFLICTS_REMEMBERED:
        del folded.conflicts[next(iter(folded.conflicts))]


def _clear(projection: Kind[S], folded: Folded[S], envelope: Recorded) -> None:
    tombstone = msgspec.msgpack.decode(envelope.payload, type=Cleared)
    state = projection.initial()
    if projection.remains is not None and tombstone.remains:
        state = projection.remains[1](tombstone.remains)
    at, refused = envelope.seq, _hashes(tombstone.refused)
    if refused and folded.refused and not folded.seen:  # parts of one clearing, in logs of before
        at, refused = folded.cleared_at, refused | folded.refused
    folded.state, folded.cleared_at = state, at
    folded.seen, folded.newest, folded.barred = {}, {}, dict(tombstone.removed)
    folded.digests, folded.conflicts, folded.refused = bytearray(), {}, refused
    folded.count = 0


def _is_barred(folded: Folded[Any], envelope: Recorded) -> bool:
    if envelope.n <= folded.barred.get(envelope.writer, -1):
        return True
    if not folded.refused or envelope.known >= folded.cleared_at:
        return False
    id = content_id(envelope.id).encode()
    return hashlib.blake2b(id, digest_size=_REFUSAL_BYTES).digest() in folded.refused


def _hashes(joined: bytes) -> frozenset[bytes]:
    starts = range(0, len(joined), _REFUSAL_BYTES)
    return frozenset(joined[at : at + _REFUSAL_BYTES] for at in starts)
