"""The changes of one scope, in order: which key was written or deleted, and how keys are linked.

They hold no values. The view is the last change alone: it tells how far a scope has come. Whoever
needs to know all keys folds the changes into an index of their own: `foldlog.scoped.index`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.kind import Kind
from foldlog_projections.folds import last

WRITTEN: Final = "scope.written"
DELETED: Final = "scope.deleted"
LINKED: Final = "scope.linked"
UNLINKED: Final = "scope.unlinked"


class Written(msgspec.Struct, frozen=True, omit_defaults=True):
    """`scope.written`: the key has a new value; the other fields are those of `scoped.written`.

    `size` is in bytes, of the encoded value.
    """

    key: str
    tier: str = ""
    lifetime: str = ""
    content_kind: str = ""
    salience: float | None = None
    ttl: int = -1
    size: int = 0
    blob: str = ""


class Deleted(msgspec.Struct, frozen=True):
    """`scope.deleted`: the key is gone, and with it every link from it and to it."""

    key: str


class Linked(msgspec.Struct, frozen=True, omit_defaults=True):
    """`scope.linked` and `scope.unlinked`; `metadata` is an encoded payload."""

    from_key: str
    to_key: str
    relation: str
    metadata: msgspec.Raw = msgspec.Raw(b"\xc0")


kind = Kind(
    "scopes",
    keys=("scope",),
    version=2,
    records={WRITTEN: Written, DELETED: Deleted, LINKED: Linked, UNLINKED: Linked},
    fold=last,
    redacted={LINKED: ("metadata",)},
)
