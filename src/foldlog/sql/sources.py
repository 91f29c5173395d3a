"""The tables that a query may ask: one for each kind with records, and those that kinds declare.

Columns follow from the kind's declaration: its keys, where a record stands, and the fields of its
structs. What is a row follows from its fold: a kind that keeps only the last record, or the last
of each value, has a row for each that it keeps; any other has a row for each record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin

import msgspec

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.sql.columns import columns_of
from foldlog.sql.messages import Column
from foldlog.store.core import core_of
from foldlog.store.primitives import decoded
from foldlog.upcasting import UPCASTERS
from foldlog.words import Rows
from foldlog_projections.registry import KINDS

if TYPE_CHECKING:
    from foldlog.store.store import BaseStore

Row = tuple[Recorded, Any]
"""The envelope that a row is of, and the record."""


class Table(NamedTuple):
    """A table that a query may use.

    Attributes:
        name: its name.
        row: what a row is.
        columns: the types of its columns, by name.
    """

    name: str
    row: str
    columns: dict[str, str]


class Source(NamedTuple):
    """How a table comes from the log.

    `fold` folds the records of one view, and `rows_of` gives the rows of the state; both None
    where each record is a row.
    """

    name: str
    row: str
    kind: Kind[Any]
    columns: tuple[Column, ...]
    fold: Kind[Any] | None = None
    rows_of: Callable[[Any], Iterable[Row]] | None = None

    @property
    def types(self) -> dict[str, str]:
        """The types of the columns, by name."""
        return {each.name: each.type for each in self.columns}


def tables(store: BaseStore) -> list[Table]:
    """Return the tables that `store.sql` knows, by name."""
    return [
        Table(name, each.row, each.types) for name, each in sources_of(core_of(store).kinds).items()
    ]


def sources_of(kinds: Mapping[str, Kind[Any]]) -> dict[str, Source]:
    """Return where all tables come from, by name."""
    found = dict[str, Source]()
    for kind in kinds.values():
        if kind.of is None and kind.records and not kind.of_storage:
            rows = kind.shown.rows
            if rows is not None:
                columns = columns_of(kind, [rows.schema], is_own=kind in KINDS)
                row_of = partial(_held, rows, codec.decoder(rows.schema))
                found[rows.table] = Source(
                    rows.table, rows.row, kind, columns, _fold_of(kind, rows), row_of
                )
            if rows is None or rows.table != kind.name:
                found[kind.name] = _source(kind)
    return dict(sorted(found.items()))


def record_of(kind: Kind[Any], envelope: Recorded) -> Any:
    """The record of an envelope, as its struct is now. Raises LogCorrupt."""
    return decoded(kind, UPCASTERS.bring_up(envelope))


def _source(kind: Kind[Any]) -> Source:
    schemas = [each.schema for name, each in kind.records.items() if name not in kind.beside]
    columns = columns_of(kind, schemas, is_own=kind in KINDS)

    def row(envelope: Recorded) -> Row:
        return envelope, record_of(kind, envelope)

    if kind.latest_only:
        last = "the last record of a view"
        return Source(
            kind.name, last, kind, columns, kind, lambda state: map(row, [state] if state else [])
        )
    if get_origin(kind.state) is dict and get_args(kind.state)[1] is Recorded:
        by = "what a view holds, by its last record"
        return Source(kind.name, by, kind, columns, kind, lambda state: map(row, state.values()))
    return Source(kind.name, "a record", kind, columns)


class Held(msgspec.Struct):
    """A view, and the last envelope that has changed each of its rows, by the row's id."""

    state: Any
    latest: dict[Any, Recorded]


def _fold_of(kind: Kind[Any], rows: Rows[Any]) -> Kind[Held]:
    """Return the fold of a kind's records whose state gives rows."""

    def apply(held: Held, envelope: Recorded) -> Held:
        changed = rows.changed(kind.decode(envelope))
        if changed is not None:
            held.state = kind.apply(held.state, envelope)
            held.latest |= dict.fromkeys(changed, envelope)
        return held

    fold = Fold(lambda: Held(kind.initial(), {}), apply, takes="envelope")
    return Kind(f"sql_{kind.name}"[:32], of=kind, fold=fold)


def _held(rows: Rows[Any], decoder: msgspec.msgpack.Decoder[Any], held: Held) -> Iterable[Row]:
    """Yield the rows of a view, each with the envelope that changed it."""
    for id, row in rows.of(held.state).items():
        if id in held.latest:
            yield held.latest[id], decoder.decode(row) if isinstance(row, msgspec.Raw) else row
