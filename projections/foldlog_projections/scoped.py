"""One key of a scope: what was written or deleted last. The truth about the key.

The scope's index (`scopes`) has an envelope of the same id for each of these, appended in the same
moment.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.kind import Kind
from foldlog_projections import latest
from foldlog_projections.latest import apply, initial

name = "scoped"
version = 1
latest_only = True

WRITTEN: Final = "scoped.written"
DELETED: Final = "scoped.deleted"

__all__ = [
    "DELETED",
    "WRITTEN",
    "Written",
    "apply",
    "initial",
    "kind",
    "latest_only",
    "name",
    "version",
]


class Written(msgspec.Struct, frozen=True, omit_defaults=True):
    """`scoped.written`: a value, an encoded payload; or the blob that holds that payload.

    Hints are as the writer gave them, empty if not. `ttl` in milliseconds, from the log's time of
    the envelope; -1 for ever. `sha256` and `size` are of the encoded payload in the blob.
    """

    value: msgspec.Raw = msgspec.Raw(b"\xc0")
    tier: str = ""
    lifetime: str = ""
    content_kind: str = ""
    salience: float | None = None
    ttl: int = -1
    blob: str = ""
    sha256: str = ""
    size: int = 0


class Deleted(msgspec.Struct, frozen=True):
    """`scoped.deleted`: the key is gone."""


kind = Kind(
    "scoped",
    keys=("scope", "key"),
    records={WRITTEN: Written, DELETED: Deleted},
    fold=latest,
    redacted={WRITTEN: ("value",)},
)
