"""The tables that a query may ask: one for each kind with records, and those that kinds declare.

Columns follow from the kind's declaration: its keys, where a record stands, and the fields of its
structs. What is a row follows from its fold: a kind that keeps only the last record, or the last
of each value, has a row for each that it keeps; any other has a row for each record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.sql import frames
from foldlog.sql.columns import table_of
from foldlog.sql.special import fold_of, rows_of
from foldlog.store.core import core_of
from foldlog.words import Rows
from foldlog_projections.registry import KINDS

if TYPE_CHECKING:
    from foldlog.store.store import BaseStore


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

    `fold` folds the records of one view, and `rows_of` gives the rows of the state in the end;
    None where the state is a list of rows, which may be taken as they come.
    """

    table: frames.Table
    row: str
    fold: Kind[Any]
    rows_of: Callable[[Any], Iterable[Recorded]] | None


def tables(store: BaseStore) -> list[Table]:
    """Return the tables that `store.sql` knows, by name."""
    return [
        Table(name, each.row, {column.name: column.type for column in each.table.columns})
        for name, each in sources_of(core_of(store).kinds).items()
    ]


def sources_of(kinds: Mapping[str, Kind[Any]]) -> dict[str, Source]:
    """Return where all tables come from, by name."""
    found = dict[str, Source]()
    for kind in kinds.values():
        if kind.of is None and kind.records and not kind.of_storage:
            rows = kind.shown.rows
            if rows is not None:
                found[rows.table] = _now(kind, rows)
            if rows is None or rows.table != kind.name:
                found[kind.name] = _source(kind)
    return dict(sorted(found.items()))


def _now(kind: Kind[Any], rows: Rows[Any]) -> Source:
    table = table_of(rows.table, kind, [rows.schema], is_own=kind in KINDS)
    return Source(table, rows.row, fold_of(kind, rows), partial(rows_of, rows))


def _source(kind: Kind[Any]) -> Source:
    schemas = [each.schema for name, each in kind.records.items() if name not in kind.beside]
    table = table_of(kind.name, kind, schemas, is_own=kind in KINDS)
    if kind.latest_only:
        return Source(table, "the last record of a view", kind, _only)
    if get_origin(kind.state) is dict and get_args(kind.state)[1] is Recorded:
        return Source(table, "what a view holds, by its last record", kind, dict.values)
    every = Kind("sql_records", of=kind, fold=Fold(list, _taken, takes="envelope"))
    return Source(table, "a record", every, None)


def _taken(state: list[Recorded], envelope: Recorded) -> list[Recorded]:
    state.append(envelope)
    return state


def _only(state: Recorded | None) -> Iterable[Recorded]:
    return () if state is None else (state,)
