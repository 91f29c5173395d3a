"""What every fold shares: repeats are dropped, and a cleared subject stays cleared.

A projection only sees each id once (promise 3 of the architecture), so that none of them needs
to think of retries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from foldlog.envelope import CLEARED, FORKED, Recorded, content_id
from foldlog.upcasting import UPCASTERS

S = TypeVar("S")

REFUSAL_BYTES: Final = 8
_REFUSALS_AN_ENVELOPE: Final = 16_384


class Projection(Protocol[S]):
    """A fold. `version` grows with every change of what it computes: states of two versions are
    not compared, and none of an older one is reused.

    `latest_only`: the state follows from the subject's last envelope alone, so one get loads it.
    `apply` may change and return the state it is given; the caller keeps only what it returns.
    """

    name: str
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

    `seen` maps an envelope id to its ordinal among those applied since the last clearing, which
    begins at sequence `cleared_at` (0: there was none). `refused` are hashes of what was cleared.
    """

    state: S
    seen: dict[str, int] = field(default_factory=dict)
    refused: set[bytes] = field(default_factory=set)
    cleared_at: int = 0

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
        refused = msgspec.msgpack.decode(envelope.payload, type=Cleared).refused
        hashes = {
            refused[start : start + REFUSAL_BYTES]
            for start in range(0, len(refused), REFUSAL_BYTES)
        }
        # One that remembers nothing forgets what those before it remembered: they are purged.
        folded.refused = folded.refused | hashes if hashes else set()
        # The tombstones of one clearing follow each other; the first of them is where it stands.
        tombstones = -(-len(folded.refused) // _REFUSALS_AN_ENVELOPE) or 1
        is_another = envelope.seq >= folded.cleared_at + tombstones
        if folded.seen or not folded.cleared_at or is_another:
            folded.cleared_at = envelope.seq
        folded.seen = {}
        folded.state = projection.initial()
        return True
    if envelope.type == FORKED:
        return False  # what it leads to was folded before it
    id, seen = envelope.id, folded.seen
    if id in seen or (folded.refused and not folded.admits(id)):
        return False
    try:
        folded.state = projection.apply(folded.state, envelope)
    except msgspec.MsgspecError:
        raise
    except Exception as fault:  # a projection of users' own may raise anything
        raise msgspec.ValidationError(f"{projection.name}, {envelope.type}: {fault!r}") from fault
    seen[id] = len(seen)
    return True


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
