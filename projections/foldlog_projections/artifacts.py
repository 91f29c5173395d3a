"""The artifacts of one session: what there is, in the order of first saves.
from foldlog.kind import Fold, Kind

The only truth about artifacts: one that is not in here does not exist, whatever bytes are stored.
The fold knows no time; that an artifact has expired is for the reader to say, and for the next
writer to put on record.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog_projections.kept import as_type

SAVED = "artifact.saved"
DELETED = "artifact.deleted"


class Scope(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whom an artifact belongs to."""

    tenant_id: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    trace_id: str | None = None


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`artifact.saved`: a reference, and the copy of its bytes, which the envelope's id claims.

    `ttl`: seconds it lives from the envelope's `ts`, 0 for ever. `source`: what the user supplied.
    """

    artifact_id: str
    sha256: str
    size_bytes: int
    blob: str = ""
    ttl: int = 0
    mime_type: str | None = None
    filename: str | None = None
    namespace: str | None = None
    scope: Scope | None = None
    source: msgspec.Raw = msgspec.Raw(b"\x80")


class Deleted(msgspec.Struct, frozen=True):
    """`artifact.deleted`: that artifact, as `saved` (an envelope id) made it, is gone."""

    artifact_id: str
    saved: str


class Held(NamedTuple):
    """An artifact that exists: the envelope that made it, by id, sequence and time."""

    id: str
    seq: int
    ts: float
    saved: Saved

    @property
    def expires_at(self) -> float:
        """Unix seconds."""
        return self.ts + self.saved.ttl if self.saved.ttl > 0 else float("inf")

    @property
    def trace_id(self) -> str | None:
        """The trace it belongs to."""
        return self.saved.scope.trace_id if self.saved.scope else None


_saved_decoder = msgspec.msgpack.Decoder(Saved)
_deleted_decoder = msgspec.msgpack.Decoder(Deleted)
keep, restore = as_type(dict[str, Held])


def initial() -> dict[str, Held]:
    """No artifacts."""
    return {}


def apply(state: dict[str, Held], envelope: Recorded, /) -> dict[str, Held]:
    """The first save of an id stands until a deletion names it.

    So a save that is deleted never comes back, and whoever has seen it gone may release its claim
    on the bytes.
    """
    if envelope.type == DELETED:
        deleted = _deleted_decoder.decode(envelope.payload)
        held = state.get(deleted.artifact_id)
        if held is not None and held.id == deleted.saved:
            del state[deleted.artifact_id]
    else:
        saved = _saved_decoder.decode(envelope.payload)
        held = Held(envelope.id, envelope.seq, envelope.ts, saved)
        state.setdefault(saved.artifact_id, held)
    return state


kind = Kind(
    "artifacts",
    keys=("session_id",),
    owner="session",
    records={SAVED: Saved, DELETED: Deleted},
    fold=Fold(initial, apply, keep, restore),
    redacted={SAVED: ("data", "filename", "meta")},
)
