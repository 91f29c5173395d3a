"""Where an artifact of recoverable states leads: to a content, if that knows of it."""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.kind import Kind
from foldlog_projections.folds import last

NAMED: Final = "stateartifact.named"


class Named(msgspec.Struct, frozen=True):
    """`stateartifact.named`: the content by its SHA-256, and the codec that wrote it."""

    sha256: str
    codec: str


kind: Final = Kind(
    "stateartifacts",
    keys=("artifact_id",),
    records={NAMED: Named},
    fold=last,
    redacted={NAMED: ("artifact",)},
)
