"""Projectors: tables of the log's records in the user's own database, each record once.

The guide is `docs/guides/projectors.md`.
"""

from foldlog.projectors.declared import (
    Projector,
    Removed,
    TableOfRows,
    Transaction,
    projector,
    table,
)
from foldlog.projectors.errors import ProjectorFailed
from foldlog.projectors.projecting import Projecting

__all__ = [
    "Projecting",
    "Projector",
    "ProjectorFailed",
    "Removed",
    "TableOfRows",
    "Transaction",
    "projector",
    "table",
]
