"""Projectors: what they make of the log's records, in tables of the user's own database."""

from __future__ import annotations

import datetime as dt
import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from foldlog.errors import ConfigurationError, Misuse
from foldlog.store.subscribing import LogItem

R = TypeVar("R")

Form = Literal["text", "integer", "real", "boolean", "time", "date", "bytes", "json"]

_FORMS: Final[dict[Any, Form]] = {
    str: "text",
    int: "integer",
    float: "real",
    bool: "boolean",
    dt.datetime: "time",
    dt.date: "date",
    bytes: "bytes",
}

VIEW: Final = "foldlog_view"
"""The column with the view that a row came of, so that it goes when that is cleared or erased."""

_encoded: Final = msgspec.json.Encoder().encode


class Transaction(Protocol):
    """What a handler writes with: rows, and how far it has come, are stored together or not at all.

    In SQL, `{calls}` is the projector's own table of that name: each version has its own.
    """

    def execute(self, sql: str, *parameters: Any) -> None:
        """Have a statement done, in order with the others, before the transaction ends.

        Args:
            sql: a statement, with the placeholders of the database's driver.
            parameters: their values.
        """

    async def fetch(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query; it sees what was executed before.

        Args:
            sql: a query, with the placeholders of the database's driver.
            parameters: their values.
        """


Handler = Callable[[Transaction, LogItem], Awaitable[None]]


class Writing(Transaction, Protocol):
    """A transaction that rows are written in by batches, too."""

    def change(self, table: TableOfRows, changes: Changes) -> None:
        """Have the changes of a table of rows done, in order with the others."""


class Projector:
    """Makes tables of records: what `foldlog.projector` and `foldlog.table` return.

    Attributes:
        name: its name, unique in a database.
        kinds: the kinds whose records it is given.
        version: change it with what it computes: another one fills its own tables.
        tables: the names of its tables.
    """

    def __init__(
        self, name: str, kinds: Sequence[str], version: int, tables: Sequence[str]
    ) -> None:
        if not all(each.isidentifier() for each in (name, *tables)):
            raise ConfigurationError(
                f"{name!r:.80}: projectors and tables are named like variables"
            )
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise ConfigurationError(f"projector {name}: version is 1 or more, not {version!r:.80}")
        self.name: str = name
        self.kinds: tuple[str, ...] = tuple(kinds)
        self.version: int = version
        self.tables: tuple[str, ...] = tuple(tables)

    def own(self, table: str) -> str:
        """Return the name of this version's own table of a name.

        Args:
            table: a name among `tables`.
        """
        return f"{table}_v{self.version}"

    def made_by(self, types: Mapping[Form, str]) -> list[str]:
        """Internal: the statements that make its tables where there are none."""
        raise NotImplementedError

    def shown_by(self, types: Mapping[Form, str]) -> dict[str, str]:
        """Internal: the queries behind the names of its tables."""
        return {name: f"select * from {quoted(self.own(name))}" for name in self.tables}

    async def write(self, tx: Writing, items: Sequence[LogItem]) -> None:
        """Internal: write what comes of some records. Raises what the user's function does."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<projector {self.name}, version {self.version}>"


def projector(
    name: str, *, kinds: Sequence[str], tables: Mapping[str, str], version: int = 1
) -> Callable[[Handler], Projector]:
    """Have a function make tables of records: it gets each of them once, in the order of its shard.

        @foldlog.projector("calls", kinds=["updates"], tables={"calls": "session text, tool text"})
        async def calls(tx, item):
            if item.was_cleared:
                tx.execute("delete from {calls} where session = ?", item.keys[0])
            elif item.record.update_type == "TOOL_CALL":
                tool = item.record.content["tool"]
                tx.execute("insert into {calls} values (?, ?)", item.keys[0], tool)

    Rows and position are stored in one transaction. Where a view is cleared or erased, the function
    gets an item with `was_cleared`: it removes what it made of it.

    Args:
        name: its name, unique in a database.
        kinds: the kinds whose records it is given.
        tables: the columns of its tables as SQL, by the table's name.
        version: change it with what the function computes. A new version fills its own tables,
            and takes the place of the old one when it has caught up.

    Returns:
        What makes a `Projector` of a coroutine function.

    Raises:
        ConfigurationError: a name is none, or the version no number. Misuse: the function is no
            coroutine function.
    """

    def decorate(handle: Handler) -> Projector:
        if not inspect.iscoroutinefunction(handle):
            raise Misuse(f"a projector is an `async def` that takes tx and item, not {handle!r}")
        return ByHand(name, kinds, version, tables, handle)

    return decorate


class ByHand(Projector):
    """A projector whose function writes SQL: what `foldlog.projector` makes.

    Attributes:
        columns: the columns of each of its tables as SQL.
        handle: is given each record, with the transaction to write in.
    """

    def __init__(
        self,
        name: str,
        kinds: Sequence[str],
        version: int,
        columns: Mapping[str, str],
        handle: Handler,
    ) -> None:
        super().__init__(name, kinds, version, [*columns])
        self.columns: Mapping[str, str] = columns
        self.handle: Handler = handle

    def made_by(self, types: Mapping[Form, str]) -> list[str]:
        """See `Projector.made_by`."""
        columns = self.columns.items()
        return [f"create table if not exists {quoted(self.own(n))} ({sql})" for n, sql in columns]

    async def write(self, tx: Writing, items: Sequence[LogItem]) -> None:
        """See `Projector.write`."""
        for item in items:
            await self.handle(tx, item)


# --- tables of rows ------------------------------------------------------------------------------


class Removed(NamedTuple):
    """What a function of `foldlog.table` returns to have a row go: the values of its key."""

    key: tuple[Any, ...]


class Column(NamedTuple):
    """A column of a table of rows."""

    name: str
    form: Form


class TableOfRows(Projector):
    """A projector with one table, of the rows that a function makes of records.

    Attributes:
        columns: the columns, those of foldlog last.
        key: the columns that tell rows apart.
        add: the columns whose values are added up.
    """

    def __init__(
        self,
        name: str,
        kinds: Sequence[str],
        version: int,
        row_of: Callable[[LogItem], Any],
        key: Sequence[str],
        add: Sequence[str],
    ) -> None:
        super().__init__(name, kinds, version, [name])
        own = [Column(each, _form(hint, name)) for each, hint in _fields_of(row_of, name).items()]
        names = [each.name for each in own]
        if unknown := [each for each in (*key, *add) if each not in names]:
            raise ConfigurationError(f"table {name}: its rows have no {', '.join(unknown)}")
        if add and {*key, *add} != {*names}:
            raise ConfigurationError(f"table {name}: with add=, each column is in key= or in add=")
        self.columns: list[Column] = [*own, Column(VIEW, "text")]
        self.key: tuple[str, ...] = (*key, *([VIEW] if add else []))
        self.add: tuple[str, ...] = tuple(add)
        self._own = names
        self._row_of = row_of
        self._key = tuple([each.name for each in self.columns].index(each) for each in self.key)
        self._add = tuple(names.index(each) for each in add)

    def made_by(self, types: Mapping[Form, str]) -> list[str]:
        """See `Projector.made_by`."""
        own = quoted(self.own(self.name))
        columns = [f"{quoted(each.name)} {types[each.form]}" for each in self.columns]
        if self.key:
            columns.append(f"primary key ({listed(self.key)})")
        index = quoted(f"{self.own(self.name)}_of_view")
        return [
            f"create table if not exists {own} ({', '.join(columns)})",
            f"create index if not exists {index} on {own} ({VIEW})",
        ]

    def shown_by(self, types: Mapping[Form, str]) -> dict[str, str]:
        """See `Projector.shown_by`."""
        form = {each.name: each.form for each in self.columns}
        columns = [
            f"cast(sum({quoted(name)}) as {types[form[name]]}) as {quoted(name)}"
            if name in self.add
            else quoted(name)
            for name in self._own
        ]
        query = f"select {', '.join(columns)} from {quoted(self.own(self.name))}"
        if self.add:
            query += f" group by {listed(name for name in self._own if name not in self.add)}"
        return {self.name: query}

    async def write(self, tx: Writing, items: Sequence[LogItem]) -> None:
        """See `Projector.write`."""
        tx.change(self, self.changes(items))

    def changes(self, items: Sequence[LogItem]) -> Changes:
        """Return what some records change in the table. Raises what the user's function does."""
        made = Changes()
        for item in items:
            view = _encoded((item.kind, *item.keys)).decode()
            if item.was_cleared:
                made.forget(view, len(self._own))
                continue
            row = self._row_of(item)
            if row is None:
                continue
            if isinstance(row, Removed):
                made.remove(row.key)
                continue
            values = [getattr(row, name) for name in self._own] + [view]
            key = tuple([values[at] for at in self._key]) or (view, item.id)
            made.put(key, values, self._add)
        return made


class Changes:
    """What a batch does to a table: first rows go, by view or by key; then others are written."""

    def __init__(self) -> None:
        self.views: dict[str, None] = {}
        self.keys: dict[tuple[Any, ...], None] = {}
        self.rows: dict[tuple[Any, ...], list[Any]] = {}

    def forget(self, view: str, at: int) -> None:
        """Have all rows of a view go, whose name is in a column."""
        self.views[view] = None
        self.rows = {key: row for key, row in self.rows.items() if row[at] != view}

    def remove(self, key: tuple[Any, ...]) -> None:
        """Have a row go."""
        self.keys[key] = None
        self.rows = {own: row for own, row in self.rows.items() if own[: len(key)] != key}

    def put(self, key: tuple[Any, ...], row: list[Any], add: Sequence[int]) -> None:
        """Write a row, or add it to what is there."""
        known = self.rows.get(key) if add else None
        if known is None:
            self.rows[key] = row
        else:
            for at in add:
                known[at] += row[at]


def table(
    name: str,
    *,
    kinds: Sequence[str],
    key: Sequence[str] = (),
    add: Sequence[str] = (),
    version: int = 1,
) -> Callable[[Callable[[LogItem], R]], TableOfRows]:
    """Make a table of the rows that a function makes of records, without SQL by hand.

        class Cost(NamedTuple):
            day: str
            tool: str
            euros: float

        @foldlog.table("costs", kinds=["updates"], key=["day", "tool"], add=["euros"])
        def costs(item: foldlog.LogItem) -> Cost | None:
            ...

    The function returns a row, None, or `foldlog.projectors.Removed` with the key of a row that
    goes. The columns are the fields of the row's class: a NamedTuple, a dataclass, a struct, or a
    pydantic model. What came of a view that is cleared or erased goes by itself.

    Args:
        name: the table's name, and the projector's.
        kinds: the kinds whose records the function is given.
        key: the fields that tell rows apart: a later row takes the place of an earlier one. Empty:
            each record's row stays.
        add: the fields that are added up in rows of one key.
        version: change it with what the function computes.

    Returns:
        What makes a `Projector` of a function.

    Raises:
        ConfigurationError: a name is none; the function does not say which class its rows are of,
            or a field is of a type that no column has.
    """
    return lambda row_of: TableOfRows(name, kinds, version, row_of, key, add)


def _fields_of(row_of: Callable[[LogItem], Any], name: str) -> dict[str, Any]:
    try:
        declared = typing.get_type_hints(row_of).get("return")
    except NameError as error:
        raise ConfigurationError(
            f"table {name}: {error}: the class of its rows stands outside of functions"
        ) from error
    rows = [each for each in _parts(declared) if each not in (type(None), Removed)]
    found = typing.get_type_hints(rows[0]) if len(rows) == 1 and isinstance(rows[0], type) else {}
    if not found:
        raise ConfigurationError(
            f"table {name}: the function says what class its rows are of: -> Cost | None"
        )
    return found


def _parts(declared: Any) -> tuple[Any, ...]:
    is_union = typing.get_origin(declared) in (typing.Union, types.UnionType)
    return typing.get_args(declared) if is_union else (declared,)


def _form(declared: Any, table: str) -> Form:
    parts = [each for each in _parts(declared) if each is not type(None)]
    origin = (typing.get_origin(parts[0]) or parts[0]) if len(parts) == 1 else None
    if origin in (dict, list, Any):
        return "json"
    found = _FORMS.get(origin)
    if found is None:
        known = ", ".join(each.__name__ for each in _FORMS)
        raise ConfigurationError(
            f"table {table}: a column is of {known}, dict or list, not {declared}"
        )
    return found


def quoted(name: str) -> str:
    """A name as SQL has it: names are identifiers."""
    return f'"{name}"'


def listed(names: Iterable[str]) -> str:
    """Names as SQL has a list of them."""
    return ", ".join(map(quoted, names))
