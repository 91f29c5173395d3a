"""An artifact of recoverable states: its content stands in a blob of its own."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.kind import Blob, Kind
from foldlog.upcasting import upcaster
from foldlog.words import Shown
from foldlog_projections.folds import last

NAMED: Final = "stateartifact.named"


class Named(msgspec.Struct, frozen=True, omit_defaults=True):
    """`stateartifact.named`: the content by its SHA-256, the codec that wrote it, its bytes.

    `size` in bytes; 0 where version 1 of the record left it out.
    """

    sha256: str
    codec: str
    blob: Blob = ""
    size: int = 0


@upcaster(NAMED, 1)
def _name_bytes(named: dict[str, Any]) -> dict[str, Any]:
    """Version 1 named no bytes: a restore stores them under this name."""
    return {**named, "blob": f"{named['sha256']}-1"}


kind: Final = Kind(
    "stateartifacts",
    keys=("artifact_id",),
    records={NAMED: Named},
    fold=last,
    redacted={NAMED: ("artifact",)},
    shown=Shown({NAMED: "large value {artifact_id} stored"}, group="files"),
)
