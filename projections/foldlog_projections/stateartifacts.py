"""An artifact of recoverable states: its content stands in a blob of its own."""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.kind import Blob, Kind
from foldlog_projections.folds import last

NAMED: Final = "stateartifact.named"


class Named(msgspec.Struct, frozen=True, omit_defaults=True):
    """`stateartifact.named`: the content by its SHA-256, the codec that wrote it, its bytes."""

    sha256: str
    codec: str
    blob: Blob = ""
    size: int = 0


kind: Final = Kind(
    "stateartifacts",
    keys=("artifact_id",),
    records={NAMED: Named},
    fold=last,
    redacted={NAMED: ("artifact",)},
)
