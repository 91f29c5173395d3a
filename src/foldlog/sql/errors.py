"""What `store.sql` raises beside `foldlog.errors`. All of them are FoldlogErrors."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from foldlog.errors import FoldlogError


class SqlError(FoldlogError):
    """The query cannot be answered. The message is DuckDB's, which shows the place."""


class UnknownTable(SqlError):
    """The query names a table that is not there. `tables` are those that are."""

    def __init__(self, name: str, tables: Sequence[str]) -> None:
        if name.lower() in tables:
            super().__init__(f"table {name} is not read for a text in a function: name it outside")
        else:
            near = get_close_matches(name.lower(), tables, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            super().__init__(f"no table {name!r:.80}{hint}; there are {', '.join(tables)}")
        self.name = name
        self.tables: tuple[str, ...] = tuple(tables)


class SqlTimeout(SqlError):
    """Reading the log and answering took longer than `timeout` seconds."""

    def __init__(self, timeout: float) -> None:
        super().__init__(
            f"the query took longer than {timeout:g} s: name fewer tables, or give timeout="
        )
        self.timeout = timeout


class TooManyRows(SqlError):
    """The answer has more than `max_rows` rows."""

    def __init__(self, max_rows: int) -> None:
        super().__init__(
            f"the answer has more than {max_rows} rows: add a limit, or give max_rows="
        )
        self.max_rows = max_rows


class SqlOutOfMemory(SqlError):
    """The query or its answer needs more than `max_bytes`."""

    def __init__(self, max_bytes: int, reason: str = "") -> None:
        because = f": {reason.splitlines()[0]}" if reason else ""
        super().__init__(
            f"the query needs more than {max_bytes:,} bytes{because}; name fewer tables, or give "
            "max_bytes="
        )
        self.max_bytes = max_bytes
