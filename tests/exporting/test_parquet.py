"""Parquet: one row an envelope, read by what reads Parquet."""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
import pytest

from foldlog.exporting import export_parquet, parquet
from tests.exporting.history import LONG, write
from tests.exporting.test_round_trip import Open, fresh, read
from tests.support.build import update

__all__ = ["fresh"]


async def test_a_row_is_an_envelope(fresh: Open, tmp_path: Path) -> None:
    store = await fresh(shards=2)
    await write(store)
    file = tmp_path / "it's.parquet"
    made = await export_parquet(store, file)
    rows = duckdb.read_parquet(str(file))
    assert " ".join(rows.columns) == "shard seq index time kind keys id type v ts payload writer"
    assert os.listdir(tmp_path) == [file.name]
    assert file.stat().st_mode & 0o777 == 0o600
    records = await read(store)
    assert made.records == len(records)
    found = rows.fetchall()
    wanted = [(r, each) for r in records for each in r.envelopes]
    assert len(found) == len(wanted)
    for row, (record, each) in zip(found, wanted, strict=True):
        assert row[:3] == (record.shard, record.seq, each.index)
        assert abs(row[3].timestamp() - each.recorded_at) < 1e-3
        assert row[4:10] == (record.kind, list(record.keys), each.id, each.type, each.v, each.ts)
        assert isinstance(json.loads(row[10]), dict | list | None)
        assert row[11] == each.writer
    [(content,)] = duckdb.sql(
        f"select payload->'$.content' from rows where kind = 'updates' and keys[1] = '{LONG}' "
        "and id = 'u1'"
    ).fetchall()
    assert json.loads(str(content)) == {"n": 1, "é": 1.5}


async def test_it_takes_a_part(
    fresh: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await fresh()
    for n in range(9):
        await store.save_update(update(f"u{n}", f"s{n % 3}"))
    file = tmp_path / "some.parquet"
    monkeypatch.setattr(parquet, "_ROWS", 2)
    await export_parquet(store, file, session_id="s1")
    found = duckdb.read_parquet(str(file)).filter("kind = 'updates'").project("id").fetchall()
    assert [id for (id,) in found] == ["u1", "u4", "u7"]
    assert os.listdir(tmp_path) == [file.name]
