"""The items of one namespace of a LangGraph store: what each key holds now.

Nothing here imports LangGraph. Items stand in the order of their last put. Vectors belong to one
put: they go when the key is put again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from foldlog.envelope import Recorded
from foldlog.kind import Content, Fold, Kind, fields_of
from foldlog.words import Shown

PUT: Final = "langgraph.put"
DELETED: Final = "langgraph.deleted"
TOUCHED: Final = "langgraph.touched"
SWEPT: Final = "langgraph.swept"
EMBEDDED: Final = "langgraph.embedded"


class Put(msgspec.Struct, frozen=True, omit_defaults=True):
    """`langgraph.put`: the key holds this value.

    `paths` are the parts of the value that can be searched: None, whatever the store searches by
    default; none, nothing. `ttl` is in seconds, from this record or the last touch; 0 for ever.
    """

    key: str
    value: Content[Any]
    paths: tuple[str, ...] | None = None
    ttl: float = 0.0


class Deleted(msgspec.Struct, frozen=True):
    """`langgraph.deleted`: the key holds nothing."""

    key: str


class Touched(msgspec.Struct, frozen=True):
    """`langgraph.touched`: the key was read, and its time begins anew."""

    key: str


class Swept(msgspec.Struct, frozen=True):
    """`langgraph.swept`: every item whose time was over at `at` is gone. Unix seconds."""

    at: float


class Embedded(msgspec.Struct, frozen=True):
    """`langgraph.embedded`: vectors of one put of a key, 32-bit floats of length 1.

    `put` is that record's id. `model` names what made the vectors, and the paths that it read.
    """

    key: str
    put: str
    model: str
    vectors: tuple[bytes, ...]


class Entry(msgspec.Struct, array_like=True, frozen=True):
    """What a key holds. `value` is encoded; times are the log's, in Unix seconds.

    `put` is the id of the record that put it. `touched_at` is when its time began.
    """

    put: str
    value: bytes
    created_at: float
    updated_at: float
    touched_at: float
    ttl: float = 0.0
    paths: tuple[str, ...] | None = None
    model: str = ""
    vectors: tuple[bytes, ...] = ()

    def is_over(self, now: float) -> bool:
        """Whether its time is over."""
        return self.ttl > 0 and self.touched_at + self.ttl <= now


class _Put(msgspec.Struct):
    """As Put, with the value left encoded."""

    key: str
    value: msgspec.Raw
    paths: tuple[str, ...] | None = None
    ttl: float = 0.0


Items = dict[str, Entry]


def _put(items: Items, envelope: Recorded) -> None:
    put, now = _decode_put(envelope.payload), envelope.recorded_at
    before = items.pop(put.key, None)
    created = now if before is None else before.created_at
    about = put.ttl, put.paths
    items[put.key] = Entry(envelope.id, bytes(put.value), created, now, now, *about)


def _delete(items: Items, envelope: Recorded) -> None:
    items.pop(_key_of(envelope), None)


def _touch(items: Items, envelope: Recorded) -> None:
    key = _key_of(envelope)
    if (entry := items.get(key)) is not None:
        touched_at = max(entry.touched_at, envelope.recorded_at)
        items[key] = replace(entry, touched_at=touched_at)


def _sweep(items: Items, envelope: Recorded) -> None:
    at = _decode_swept(envelope.payload).at
    for key in [key for key, entry in items.items() if entry.is_over(at)]:
        del items[key]


def _embed(items: Items, envelope: Recorded) -> None:
    found = _decode_embedded(envelope.payload)
    entry = items.get(found.key)
    if entry is not None and entry.put == found.put:
        items[found.key] = replace(entry, model=found.model, vectors=found.vectors)


_key_of: Final = fields_of("key")
_decode_put: Final = msgspec.msgpack.Decoder(_Put).decode
_decode_swept: Final = msgspec.msgpack.Decoder(Swept).decode
_decode_embedded: Final = msgspec.msgpack.Decoder(Embedded).decode
_FOLDS: Final = {PUT: _put, DELETED: _delete, TOUCHED: _touch, SWEPT: _sweep, EMBEDDED: _embed}
_REPLACING: Final = {PUT: "item", DELETED: "item", TOUCHED: "touch"}


def _apply(items: Items, envelope: Recorded, /) -> Items:
    _FOLDS[envelope.type](items, envelope)
    return items


def _replaced(envelope: Recorded) -> tuple[str, str] | None:
    """A put replaces what was put before, and what was deleted; a touch only another touch."""
    what = _REPLACING.get(envelope.type)
    return None if what is None else (what, _key_of(envelope))


kind: Final = Kind(
    "langgraphitems",
    keys=("store", "namespace"),
    records={PUT: Put, DELETED: Deleted, TOUCHED: Touched, SWEPT: Swept, EMBEDDED: Embedded},
    fold=Fold(dict, _apply, state=Items, takes="envelope", replaces=_replaced),
    shown=Shown(
        {
            PUT: "item {key} put: {value}",
            DELETED: "item {key} deleted",
            TOUCHED: "item {key} used",
            SWEPT: "expired items removed",
            EMBEDDED: "item {key} can be searched",
        },
        group="items",
    ),
)
"""By key. The namespace is `path_of` its labels."""


def path_of(labels: Sequence[str]) -> str:
    """The labels of a namespace as one key: no two namespaces have the same one."""
    return "/".join(label.replace("%", "%25").replace("/", "%2F") for label in labels)


def labels_of(path: str) -> list[str]:
    """The labels that `path_of` has made the path from."""
    return [label.replace("%2F", "/").replace("%25", "%") for label in path.split("/")]
