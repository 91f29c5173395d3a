"""What every fold shares: repeats and overtaken saves are dropped, and a cleared subject stays
cleared.

A projection only sees each id once, and never a save that arrives after a later one of the same
writer (promise 3 of the architecture), so that none of them needs to think of retries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from foldlog.envelope import CLEARED, FORKED, Recorded, content_id
from foldlog.upcasting import UPCASTERS

S = TypeVar("S")

REFUSAL_BYTES: Final = 8
_REFUSALS_AN_ENVELOPE: Final = 16_384


Replaced = str | tuple[str | None, ...]
"""What an envelope replaces: a key inside the subject."""


class Projection(Protocol[S]):
    """A fold. `version` grows with every change of what it computes: states of two versions are
    not compared, and none of an older one is reused.

    `latest_only`: each envelope replaces the whole state, so the last one alone loads it. `apply`
    may change and return the state it is given; the caller keeps only what it returns.

    `family`: the subjects that it folds, those of a kind of that name.

    Optional: `replaces(envelope) -> Replaced | None`, the key that an envelope replaces, None for
    nothing. Of one writer's envelopes with the same key, the one drafted last stands.
    """

    name: str
    family: str
    version: int
    latest_only: bool

    def initial(self) -> S:
        """The state before the first envelope."""
        ...

    def apply(self, state: S, envelope: Recorded, /) -> S:
        """The state after `envelope`."""
        ...


class Cleared(msgspec.Struct, frozen=True):
    """The payload of `subject.cleared`: 8-byte hashes of every content id that was removed."""

    refused: bytes


@dataclass(slots=True)
class Folded(Generic[S]):
    """A projection's state, with what it takes to apply each id once.

    `seen` maps an envelope id to its ordinal among those seen since the last clearing, which
    begins at sequence `cleared_at` (0: there was none). `refused` are hashes of what was cleared.
    `newest` has, for each key that was replaced and each writer, the counter of the writer's last
    draft.

    Of a projection that is `latest_only`, `seen` has sequences, and need not have them all.
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


def step(projection: Projection[S], folded: Folded[S], envelope: Recorded) -> bool:
    """Fold one envelope in. Return whether it took effect.

    Raises:
        msgspec.ValidationError: its payload is not what its type says, or the projection fails.
        MissingUpcaster: it cannot be brought to the version that this program knows.
    """
    if envelope.v != UPCASTERS.newest.get(envelope.type, 1):
        envelope = UPCASTERS.bring_up(envelope)
    if envelope.type == CLEARED:
        _clear(projection, folded, envelope)
        return True
    if envelope.type == FORKED:
        return False  # what it leads to was folded before it
    id, seen, latest_only = envelope.id, folded.seen, projection.latest_only
    # Whoever loads the latest only has not looked at what its writer knew of already.
    if id in seen and (not latest_only or seen[id] > envelope.known):
        return False
    if folded.refused and refusal(id) in folded.refused:
        return False
    try:
        is_overtaken = bool(envelope.writer) and _is_overtaken(projection, folded, envelope)
        if not is_overtaken:
            folded.state = projection.apply(folded.state, envelope)
    except msgspec.MsgspecError:
        raise
    except Exception as fault:  # a projection of users' own may raise anything
        raise msgspec.ValidationError(f"{projection.name}, {envelope.type}: {fault!r}") from fault
    seen[id] = envelope.seq if latest_only else len(seen)
    return not is_overtaken


def replaced_by(projection: Projection[Any], envelope: Recorded) -> Replaced | None:
    """The key that an envelope replaces in its fold; None if it replaces nothing."""
    if projection.latest_only:
        return ""
    replaces = getattr(projection, "replaces", None)
    return None if replaces is None else replaces(envelope)


def _is_overtaken(projection: Projection[Any], folded: Folded[Any], envelope: Recorded) -> bool:
    """Whether its writer has replaced what it replaces already; if not, note that it does so."""
    replaced = replaced_by(projection, envelope)
    if replaced is None:
        return False
    key = replaced, envelope.writer
    if envelope.n < folded.newest.get(key, 0):
        return True
    folded.newest[key] = envelope.n
    return False


def _clear(projection: Projection[S], folded: Folded[S], envelope: Recorded) -> None:
    refused = msgspec.msgpack.decode(envelope.payload, type=Cleared).refused
    hashes = {
        refused[start : start + REFUSAL_BYTES] for start in range(0, len(refused), REFUSAL_BYTES)
    }
    # One that remembers nothing forgets what those before it remembered: they are purged.
    folded.refused = folded.refused | hashes if hashes else set()
    # The tombstones of one clearing follow each other; the first of them is where it stands.
    tombstones = -(-len(folded.refused) // _REFUSALS_AN_ENVELOPE) or 1
    is_another = envelope.seq >= folded.cleared_at + tombstones
    if folded.seen or not folded.cleared_at or is_another:
        folded.cleared_at = envelope.seq
    folded.seen = {}
    folded.newest = {}
    folded.state = projection.initial()


def clearing(folded: Folded[S]) -> list[bytes]:
    """The payloads of the `subject.cleared` that remove, for ever, all that was applied."""
    refused = sorted(folded.refused.union(refusal(id) for id in folded.seen))
    return [
        msgspec.msgpack.encode(Cleared(b"".join(refused[start : start + _REFUSALS_AN_ENVELOPE])))
        for start in range(0, len(refused), _REFUSALS_AN_ENVELOPE)
    ]


def refusal(id: str) -> bytes:
    """The hash under which a cleared subject remembers a content id."""
    return hashlib.blake2b(content_id(id).encode(), digest_size=REFUSAL_BYTES).digest()


def fold(projection: Projection[S], envelopes: Iterable[Recorded]) -> Folded[S]:
    """Fold a whole log, in order."""
    folded = start(projection)
    for envelope in envelopes:
        step(projection, folded, envelope)
    return folded
