"""SQL over a store's log: what `store.sql` answers with, its tables and its errors.

Names are loaded when they are first used: the process that answers a query needs few of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foldlog.sql.asking import ask as ask
    from foldlog.sql.errors import (
        SqlError as SqlError,
        SqlOutOfMemory as SqlOutOfMemory,
        SqlTimeout as SqlTimeout,
        TooManyRows as TooManyRows,
        UnknownTable as UnknownTable,
    )
    from foldlog.sql.result import SqlResult as SqlResult
    from foldlog.sql.sources import Table as Table, tables as tables

_HOMES = {
    "asking": "ask",
    "errors": "SqlError SqlOutOfMemory SqlTimeout TooManyRows UnknownTable",
    "result": "SqlResult",
    "sources": "Table tables",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module 'foldlog.sql' has no attribute {name!r}")
        value = getattr(import_module(f"foldlog.sql.{_HOME_OF[name]}"), name)
        globals()[name] = value
        return value
