"""One content, by its SHA-256: the blob that holds it, and the artifacts that claim it.

Whoever claims and whoever removes compare-and-set on this subject, so that a content is never
removed under somebody who has just found it there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog_projections.kept import as_type

name = "statecontents"
version = 1
latest_only = False

STORED: Final = "statecontent.stored"
CLAIMED: Final = "statecontent.claimed"
RELEASED: Final = "statecontent.released"


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """`statecontent.stored`, `.claimed` and `.released`: by that artifact; `blob` if stored."""

    artifact_id: str
    blob: str = ""
    size_bytes: int = 0


@dataclass(slots=True)
class Content:
    """`claims`: when each artifact claimed it last, in Unix seconds by the log's clock."""

    blob: str = ""
    size_bytes: int = 0
    claims: dict[str, float] = field(default_factory=dict)


_decoder: Final = msgspec.msgpack.Decoder(Claim)
keep, restore = as_type(Content)


def initial() -> Content:
    """It is not stored."""
    return Content()


def apply(state: Content, envelope: Recorded, /) -> Content:
    """A release by the last who claims it takes the blob away, too."""
    claim = _decoder.decode(envelope.payload)
    if envelope.type == RELEASED:
        state.claims.pop(claim.artifact_id, None)
        return state if state.claims else Content()
    if envelope.type == STORED:
        state.blob, state.size_bytes = claim.blob, claim.size_bytes
    state.claims[claim.artifact_id] = envelope.recorded_at
    return state


kind = Kind(
    "statecontents",
    keys=("sha256",),
    records={STORED: Claim, CLAIMED: Claim, RELEASED: Claim},
    fold=Fold(initial, apply, keep, restore),
)
