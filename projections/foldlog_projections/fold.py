"""What every fold shares: repeats and overtaken saves are dropped, cleared subjects stay cleared.

A projection sees each id once, and never a save that arrives after a later one of the same writer,
so that no fold needs to think of retries.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import msgspec

from foldlog.envelope import CLEARED, FORKED, Recorded, content_id
from foldlog.upcasting import UPCASTERS
from foldlog_projections.items import Items

S = TypeVar("S")

REFUSAL_BYTES: Final = 8
_REFUSALS_AN_ENVELOPE: Final = 16_384
_encode: Final = msgspec.msgpack.Encoder().encode


Replaced = str | int | tuple[str | int | None, ...]
"""What an envelope replaces: a key inside the subject."""


class Projection(Protocol[S]):
    """A fold as views use it; every kind is one.

    It folds the subjects of its `family`. States of another `version` are neither compared nor
    reused. `latest_only`: the last envelope alone gives the state. `replaces(envelope)` is the key
    that an envelope replaces, None for nothing: of one writer's envelopes with the same key, the
    one drafted last stands. `keep` makes bytes of a state, and `restore` an equal state of them;
    None where a state fits no snapshot. `remains`, `early_snapshots`: see `foldlog.kind.Fold`.
    """

    name: str
    family: str
    version: int
    latest_only: bool
    keep: Callable[[S], bytes] | None
    restore: Callable[[bytes], S] | None
    remains: tuple[Callable[[S], bytes], Callable[[bytes], S]] | None
    early_snapshots: bool

    @property
    def replaces(self) -> Callable[[Recorded], Any] | None:
        """None if no envelope replaces anything."""

    def initial(self) -> S:
        """The state before the first envelope."""

    def apply(self, state: S, envelope: Recorded, /) -> S:
        """The state after `envelope`. It may change and return the state that it is given."""


class EqualByBytes:
    """States that are equal if they encode alike, since NaN differs from NaN, and 1 equals True."""

    __slots__ = ()
    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # they change

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _encode(self) == _encode(other)


class Cleared(msgspec.Struct, frozen=True, omit_defaults=True):
    """The payload of `subject.cleared`: 8-byte hashes of every content id that was removed, and
    what the projection leaves of its state.
    """

    refused: bytes
    remains: bytes = b""


@dataclass(slots=True)
class Folded(Generic[S]):
    """A projection's state, and the ids that it has applied.

    `seen` maps an envelope id to its ordinal since the last clearing, which begins at sequence
    `cleared_at` (0: there was none). For a `latest_only` projection it has sequences, and may
    lack some. `refused` are hashes of cleared ids. `newest` has, for each replaced key and each
    writer, the counter of the writer's last draft.
    """

    state: S
    seen: dict[str, int] = field(default_factory=dict)
    refused: set[bytes] = field(default_factory=set)
    cleared_at: int = 0
    newest: dict[tuple[Replaced, str], int] = field(default_factory=dict)

    def admits(self, id: str) -> bool:
        """Whether an envelope with this id would take effect."""
        if id in self.seen:
            return False
        return not self.refused or refusal(id) not in self.refused


def start(projection: Projection[S]) -> Folded[S]:
    """The fold of nothing."""
    return Folded(projection.initial())


def copied(projection: Projection[S], state: Any) -> Any:
    """A state that shares nothing with the given one."""
    if isinstance(state, Items):
        return state.copy()
    if state is None or isinstance(state, Recorded):
        return state
    if projection.keep is None or projection.restore is None:
        return copy.deepcopy(state)
    return projection.restore(projection.keep(state))


def step(projection: Projection[S], folded: Folded[S], envelope: Recorded) -> bool:
    """Fold one envelope in. Return whether it took effect."""
    type = envelope.type
    if envelope.v != UPCASTERS.newest.get(type, 1):
        envelope = UPCASTERS.bring_up(envelope)
    if type == CLEARED:
        _clear(projection, folded, envelope)
        return True
    if type == FORKED:
        return False  # the records that it leads to were folded before it
    id, seen, latest_only = envelope.id, folded.seen, projection.latest_only
    # A load that takes the latest only has not looked at what its writer knew of already.
    if id in seen and (not latest_only or seen[id] > envelope.known):
        return False
    if folded.refused and refusal(id) in folded.refused:
        return False
    try:
        replaces = projection.replaces
        is_overtaken = (
            replaces is not None
            and envelope.writer != ""
            and _is_overtaken(replaces(envelope), folded, envelope)
        )
        if not is_overtaken:
            folded.state = projection.apply(folded.state, envelope)
    except msgspec.MsgspecError:
        raise
    except Exception as fault:  # the fold may be the caller's code, which may raise anything
        raise msgspec.ValidationError(f"{projection.name}, {type}: {fault!r}") from fault
    seen[id] = envelope.seq if latest_only else len(seen)
    return not is_overtaken


def _is_overtaken(replaced: Replaced | None, folded: Folded[Any], envelope: Recorded) -> bool:
    """Whether its writer has replaced that key already; if not, note that it does so now."""
    if replaced is None:
        return False
    key = replaced, envelope.writer
    if envelope.n < folded.newest.get(key, 0):
        return True
    folded.newest[key] = envelope.n
    return False


def _clear(projection: Projection[S], folded: Folded[S], envelope: Recorded) -> None:
    tombstone = msgspec.msgpack.decode(envelope.payload, type=Cleared)
    cleared = hashes(tombstone.refused)
    # One that remembers nothing forgets what those before it remembered: they are purged.
    folded.refused = folded.refused | cleared if cleared else set()
    # The tombstones of one clearing follow each other; the first of them is where it stands.
    tombstones = -(-len(folded.refused) // _REFUSALS_AN_ENVELOPE) or 1
    is_another = envelope.seq >= folded.cleared_at + tombstones
    if folded.seen or not folded.cleared_at or is_another:
        folded.cleared_at = envelope.seq
    folded.seen = {}
    folded.newest = {}
    if projection.remains is not None and tombstone.remains:
        folded.state = projection.remains[1](tombstone.remains)
    else:
        folded.state = projection.initial()


def clearing(folded: Folded[Any], remains: bytes = b"", *, remember: bool = True) -> list[bytes]:
    """The payloads of the `subject.cleared` that remove all that was applied: one or more.

    Args:
        remains: what the projection leaves of its state.
        remember: repetitions are refused, for ever.
    """
    refused = sorted(folded.refused.union(map(refusal, folded.seen))) if remember else []
    starts = range(0, len(refused) or 1, _REFUSALS_AN_ENVELOPE)
    parts = [b"".join(refused[start : start + _REFUSALS_AN_ENVELOPE]) for start in starts]
    return [*map(_encode, map(Cleared, parts[:-1])), _encode(Cleared(parts[-1], remains))]


def refusal(id: str) -> bytes:
    """The hash under which a cleared subject remembers a content id."""
    return hashlib.blake2b(content_id(id).encode(), digest_size=REFUSAL_BYTES).digest()


def hashes(joined: bytes) -> set[bytes]:
    """Hashes that stand one after the other."""
    return {joined[at : at + REFUSAL_BYTES] for at in range(0, len(joined), REFUSAL_BYTES)}
