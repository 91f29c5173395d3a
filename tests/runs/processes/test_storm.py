"""Processes that do runs are killed and frozen while these are paused, cancelled and asked about.

Each step has its effect once, the question has one answer, and one owner writes at a time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import foldlog
from tests.runs.processes import storm as storms
from tests.runs.processes.storm import storm


@pytest.mark.parametrize("kills", [5, pytest.param(10, marks=pytest.mark.long)])
async def test_each_effect_once_and_orders_obeyed(
    embedded_path: Path,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kills: int,
) -> None:
    monkeypatch.setattr(storms, "KILLS", kills)
    async with foldlog.connect(path=embedded_path, namespace=namespace) as store:
        found = await storm(store, embedded_path, tmp_path, 8, seed=1)
    assert found.broken == []
    assert found.counts["kills"] + found.counts["frozen"] > 0
    assert found.counts["COMPLETE"] > 0
