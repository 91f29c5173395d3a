"""One content, by its SHA-256: its claims, and the copies of its bytes. Time is the log's.

Claims and releases compare-and-set on this subject, so nobody removes bytes that another has just
found. A copy is named by the id of the envelope that announces it, so no name is used twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind

BEGUN: Final = "blob.begun"
CLAIMED: Final = "blob.claimed"
RELEASED: Final = "blob.released"

GRACE: Final = 3600.0
"""Seconds that claims and copies outlast their time: by so much may clocks differ."""


class Begun(msgspec.Struct, frozen=True):
    """`blob.begun`: a copy is about to be stored, called after the id of this envelope."""


class Claim(NamedTuple):
    """A need for a content: the view that refers to it, and the id by which it does."""

    family: str
    keys: tuple[str, ...]
    id: str


class Claimed(msgspec.Struct, frozen=True, omit_defaults=True):
    """`blob.claimed`: `copy`, the id of its `blob.begun`, is stored and stays for that claim.

    `size` in bytes. `ttl` in seconds from the log's time of the envelope, 0 for ever.
    """

    claim: Claim
    copy: str
    size: int
    ttl: int = 0


class Released(msgspec.Struct, frozen=True, omit_defaults=True):
    """`blob.released`; `is_last` if no other claim counts any more, as the releaser saw it."""

    claim: Claim
    is_last: bool = False


class Term(NamedTuple):
    """When something was claimed last, and when that ends; in Unix seconds."""

    since: float
    until: float

    def is_over(self, now: float) -> bool:
        """Whether it has ended, however clocks differ; `now` in Unix seconds."""
        return now > self.until + GRACE


@dataclass(slots=True)
class Content:
    """`copies` are stored, by id. `loose`: copies that nobody claims, with the time at which the
    save of each began; 0 for those that were released, which nobody claims again.
    """

    size: int = 0
    claims: dict[Claim, Term] = field(default_factory=dict)
    copies: dict[str, Term] = field(default_factory=dict)
    loose: dict[str, float] = field(default_factory=dict)

    @property
    def released(self) -> list[str]:
        """The copies that anybody may remove now."""
        return [copy for copy, since in self.loose.items() if not since]

    def copy_until(self, time: float) -> str:
        """A copy that lasts until then, in Unix seconds; "" if there is none."""
        return next((copy for copy, term in self.copies.items() if term.until >= time), "")


def apply(state: Content, envelope: Recorded, /) -> Content:
    """Fold one envelope in, after removing what was over when the log recorded it."""
    now = envelope.recorded_at
    state.claims = {claim: term for claim, term in state.claims.items() if not term.is_over(now)}
    state.copies = {copy: term for copy, term in state.copies.items() if not term.is_over(now)}
    if envelope.type == BEGUN:
        state.loose[envelope.id] = now
        return state
    record = kind.decode(envelope)
    if isinstance(record, Claimed):
        until = now + record.ttl if record.ttl else float("inf")
        state.size = record.size
        state.claims[record.claim] = Term(now, until)
        if state.loose.pop(record.copy, None) is not None:
            # It lasts an hour longer, so that those who come soon can share it.
            state.copies[record.copy] = Term(now, until + GRACE)
    else:
        state.claims.pop(record.claim, None)
        if record.is_last or not state.claims:
            state.loose |= dict.fromkeys(state.copies, 0.0)
            state.claims, state.copies = {}, {}
    return state


kind: Final = Kind(
    "blobs",
    keys=("sha256",),
    records={BEGUN: Begun, CLAIMED: Claimed, RELEASED: Released},
    version=2,
    fold=Fold(Content, apply, state=Content, takes="envelope"),
)
