"""The keys of a scope: what was written or deleted last of each, and how keys are linked.

A key's subject is the truth about the key; the vectors of a value stand there, too, behind it. To
know all keys of a scope, fold all of its subjects, in order, into an index: `foldlog.scoped.index`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.kind import Blob, Kind
from foldlog.words import Shown
from foldlog_projections.folds import last

WRITTEN: Final = "scoped.written"
DELETED: Final = "scoped.deleted"
LINKED: Final = "scoped.linked"
UNLINKED: Final = "scoped.unlinked"
EMBEDDED: Final = "scoped.embedded"

OWN: Final = "\0"
"""What stands in place of a key in a scope's own subject: its links are there, and the tombstone
of all of it. No user's key is this one."""


class Written(msgspec.Struct, frozen=True, omit_defaults=True):
    """`scoped.written`: a value, an encoded payload; or the blob that holds that payload.

    Hints are as the writer gave them, empty if not. `ttl` in milliseconds, from the log's time of
    the envelope; -1 for ever.
    """

    value: msgspec.Raw = msgspec.Raw(b"\xc0")
    tier: str = ""
    lifetime: str = ""
    content_kind: str = ""
    salience: float | None = None
    ttl: int = -1
    blob: Blob = ""
    size: int = 0


class Deleted(msgspec.Struct, frozen=True):
    """`scoped.deleted`: the key is gone, and with it every link from it and to it."""


class Linked(msgspec.Struct, frozen=True, omit_defaults=True):
    """`scoped.linked` and `scoped.unlinked`; `metadata` is an encoded payload."""

    from_key: str
    to_key: str
    relation: str
    metadata: msgspec.Raw = msgspec.Raw(b"\xc0")


class Embedded(msgspec.Struct, frozen=True):
    """`scoped.embedded`: the vector of one value of the key, 32-bit floats of length 1.

    `version` is the id of the record that wrote the value; `model` names what made the vector.
    """

    version: str
    model: str
    vector: bytes


kind: Final = Kind(
    "scoped",
    keys=("scope", "key"),
    owner="scope",
    version=3,
    records={
        WRITTEN: Written,
        DELETED: Deleted,
        LINKED: Linked,
        UNLINKED: Linked,
        EMBEDDED: Embedded,
    },
    fold=last,
    beside=(EMBEDDED,),
    redacted={WRITTEN: ("value",), LINKED: ("metadata",)},
    shown=Shown(
        {
            WRITTEN: "key {key} written: {value}",
            DELETED: "key {key} deleted",
            EMBEDDED: "key {key} can be searched",
            LINKED: "{from_key} linked to {to_key}: {relation}",
            UNLINKED: "{from_key} no longer linked to {to_key}: {relation}",
        },
        group="memory",
    ),
)
