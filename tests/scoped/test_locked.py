"""An index whose file another process has locked for a moment."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from foldlog.scoped import documents
from foldlog.scoped.index import Index


def test_who_opens_an_index_waits_for_who_makes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite answers at once here, whatever its timeout: two processes open one new index."""
    path = tmp_path / "index.sqlite"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("CREATE TABLE theirs (n)")
    other.execute("BEGIN IMMEDIATE")
    pauses = list[float]()

    def end(seconds: float) -> None:
        pauses.append(seconds)
        other.execute("COMMIT")

    monkeypatch.setattr(documents.time, "sleep", end)
    Index(path).close()
    other.close()
    assert len(pauses) == 1
