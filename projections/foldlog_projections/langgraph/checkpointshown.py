"""How the checkpoints of a thread are shown: in words, as a table, and for comparing threads."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.words import Line, Rows, Shown, said
from foldlog_projections.langgraph.checkpointrecords import (
    COPIED,
    HELD,
    PART,
    PRUNED,
    PUT,
    RELEASED,
    REMOVED,
    WRITTEN,
    Copied,
    Put,
    Written,
    typed,
)
from foldlog_projections.langgraph.thread import Thread

_NULL: Final = msgspec.Raw(b"\xc0")


class Row(msgspec.Struct):
    """A row of the table. `channels` are those that have a value."""

    ns: str
    checkpoint_id: str
    parent_id: str | None
    metadata: msgspec.Raw
    channels: tuple[str, ...]


def _rows(thread: Thread) -> dict[tuple[str, str], Row]:
    return {
        (ns, id): _row(ns, id, space.checkpoints[id])
        for ns, space in thread.namespaces.items()
        for id in space.ids
    }


def _row(ns: str, id: str, each: Any) -> Row:
    form, metadata = each.metadata
    raw = msgspec.Raw(metadata) if form is None else _NULL
    return Row(ns, id, each.parent, raw, tuple(each.versions))


def _changed(record: Any) -> list[tuple[str, str]]:
    if isinstance(record, Put):
        return [(record.ns, record.id)]
    copied = record.ids if isinstance(record, Copied) else {}
    return [(ns, id) for ns, ids in copied.items() for id in ids]


def _put(put: Put) -> Line:
    return Line(f"checkpoint {put.ns}".strip(), ", ".join(put.values))


def _written(written: Written) -> Line:
    for each in written.writes:
        value = typed(each.form, each.data)
        if value is not None:
            name = each.channel.replace("__", "")
            if name == "interrupt":
                return Line("asked", said(value), tone="waiting")
            return Line(name, said(value), tone="failed" if name == "error" else "")
    return Line("nothing written")


def _entries(thread: Thread) -> dict[str, Any]:
    return {
        " ".join(filter(None, (ns, each.id))): {
            "parent": each.parent,
            "metadata": _plain(*each.metadata),
            "values": {
                name: _plain(body.form, body.data) for name, body in space.values(each).items()
            },
            "writes": [
                [one.task, one.write.channel, _plain(one.write.form, one.write.data)]
                for one in space.written(each.id)
            ],
        }
        for ns, space in thread.namespaces.items()
        for each in space.checkpoints.values()
    }


def _plain(form: str | None, data: bytes) -> Any:
    """A value that every program can read; of others, which it is."""
    if form in (None, "msgpack", "null"):
        try:
            return codec.decode(data) if data else None
        except ValueError:
            pass
    return f"{form} {hashlib.blake2b(data, digest_size=8).hexdigest()}"


shown: Final[Shown[Thread]] = Shown(
    {
        PUT: _put,
        WRITTEN: _written,
        REMOVED: "checkpoints removed",
        PRUNED: "older checkpoints removed",
        HELD: "{holder} holds the thread",
        RELEASED: "the thread is free",
        PART: "part of a copy",
        COPIED: "copied from another thread",
    },
    group="checkpoints",
    entries=_entries,
    rows=Rows(
        "checkpoints",
        "a checkpoint of a LangGraph thread that was not removed",
        Row,
        _rows,
        _changed,
    ),
)
