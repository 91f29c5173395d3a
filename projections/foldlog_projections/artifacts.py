"""The artifacts of one session: what there is, in the order of first saves.

The only truth about artifacts: one that is not in here does not exist, whatever bytes are stored.
The fold knows no time: readers skip what has expired, and the next writer deletes it.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Blob, Fold, Kind
from foldlog.words import Line, Shown, in_bytes
from foldlog_projections import artifact

SAVED = "artifact.saved"
DELETED = "artifact.deleted"


class Scope(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whom an artifact belongs to."""

    tenant_id: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    trace_id: str | None = None


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """`artifact.saved`: a reference, and the blob with its bytes.

    `ttl`: seconds it lives from the envelope's `ts`, 0 for ever. `source`: what the user supplied.
    """

    artifact_id: str
    sha256: str
    size_bytes: int
    blob: Blob = ""
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


def apply(state: dict[str, Held], record: Any, envelope: Recorded, /) -> dict[str, Held]:
    """The first save of an id stands until a deletion names it.

    A save that was deleted never comes back, so its bytes may go.
    """
    if isinstance(record, Saved):
        held = Held(envelope.id, envelope.seq, envelope.ts, record)
        state.setdefault(record.artifact_id, held)
    elif (found := state.get(record.artifact_id)) is not None and found.id == record.saved:
        del state[record.artifact_id]
    return state


def _places(record: Saved | Deleted) -> list[tuple[str, tuple[str, ...]]]:
    return [(artifact.kind.name, (record.artifact_id,))]


def _saved(saved: Saved) -> Line:
    return Line(f"file {saved.filename or saved.artifact_id} ({in_bytes(saved.size_bytes)})")


kind: Final = Kind(
    "artifacts",
    keys=("session_id",),
    owner="session",
    pointers=_places,
    records={SAVED: Saved, DELETED: Deleted},
    fold=Fold(dict, apply, state=dict[str, Held]),
    redacted={SAVED: ("data", "filename", "meta")},
    shown=Shown({SAVED: _saved, DELETED: "file {artifact_id} deleted"}, group="files"),
)
