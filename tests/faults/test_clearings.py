"""The storm of clearings, small; and that its judge finds what is planted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.clearing import PLANTED
from tests.faults.storms.clearings import clearings

pytestmark = pytest.mark.long

FOUND = {
    "dropped": {"lost"},
    "one by one": {"torn"},
    "forgotten": {"back", "torn", "erased"},
    "undecided": {"decided"},
}


async def test_sessions_that_are_cleared_while_others_save_and_all_are_killed(
    tmp_path: Path,
) -> None:
    figures = await clearings(tmp_path / "data", 40)
    assert figures.broken == []
    assert figures.counts["saves ok"] > 200
    assert figures.counts["clears ok"] > 10
    assert figures.counts["server kills"] > 3
    assert figures.counts["process kills"] > 3


@pytest.mark.parametrize("planted", PLANTED)
async def test_what_is_planted_is_found(tmp_path: Path, planted: str) -> None:
    figures = await clearings(tmp_path / "data", 120, planted=planted)
    assert {each.kind for each in figures.broken} & FOUND[planted], figures.broken
