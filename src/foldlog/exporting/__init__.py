"""Exports of a log: files that people and programs read, and that come back exactly.

`export` writes one, `check` finds out whether one is whole, `restore` brings one into an empty
namespace. A backup is an export of everything: see `docs/guides/backup.md`. A bundle
(`foldlog.bundles`) is a session's export with a signature.
"""

from foldlog.exporting.parquet import export_parquet
from foldlog.exporting.reading import Checked, check, is_export, read_header
from foldlog.exporting.restoring import Restored, RestoreProgress, restore
from foldlog.exporting.writing import Exported, ExportProgress, export, export_lines

__all__ = [
    "Checked",
    "ExportProgress",
    "Exported",
    "RestoreProgress",
    "Restored",
    "check",
    "export",
    "export_lines",
    "export_parquet",
    "is_export",
    "read_header",
    "restore",
]
