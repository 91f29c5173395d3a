"""One key of a scope: what was written or deleted last. The truth about the key.

The scope's index (`scopes`) has an envelope of the same id for each of these, appended in the same
moment.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.kind import Kind
from foldlog_projections.folds import last

WRITTEN: Final = "scoped.written"
DELETED: Final = "scoped.deleted"


class Written(msgspec.Struct, frozen=True, omit_defaults=True):
    """`scoped.written`: a value, an encoded payload; or the blob that holds that payload, which
    the envelope's id claims.

    Hints are as the writer gave them, empty if not. `ttl` in milliseconds, from the log's time of
    the envelope; -1 for ever.
    """

    value: msgspec.Raw = msgspec.Raw(b"\xc0")
    tier: str = ""
    lifetime: str = ""
    content_kind: str = ""
    salience: float | None = None
    ttl: int = -1
    blob: str = ""
    size: int = 0


class Deleted(msgspec.Struct, frozen=True):
    """`scoped.deleted`: the key is gone."""


kind = Kind(
    "scoped",
    keys=("scope", "key"),
    records={WRITTEN: Written, DELETED: Deleted},
    fold=last,
    redacted={WRITTEN: ("value",)},
)
