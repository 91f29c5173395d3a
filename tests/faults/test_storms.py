"""The storms, small: as many kills as a test has time for, judged as the large ones are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.history import Entry
from tests.faults.storms.cluster import lagging_kills, node_kills
from tests.faults.storms.frozen import frozen
from tests.faults.storms.memory import memory_kept
from tests.faults.storms.outage import out_of_order, outage
from tests.faults.storms.races import resume_races
from tests.faults.storms.saves import contended_saves
from tests.faults.storms.server import server_kills

pytestmark = pytest.mark.long


async def test_a_server_that_is_killed_again_and_again(tmp_path: Path) -> None:
    figures = await server_kills(tmp_path / "data", 30)
    assert figures.broken == []
    assert figures.counts["server kills"] == 30
    assert figures.counts["client kills"] >= 3
    assert figures.counts["saves ok"] > 30


async def test_one_of_three_servers_that_is_killed_again_and_again() -> None:
    figures = await node_kills(4)
    assert figures.broken == []
    assert figures.counts["leader kills"] == 2
    assert figures.counts["node at random kills"] == 2


async def test_a_leader_that_is_killed_while_a_node_lags() -> None:
    figures = await lagging_kills(2)
    assert figures.broken == []
    kills = [count for what, count in figures.counts.items() if what.startswith("leader with")]
    assert sum(kills) == 2


async def test_a_follower_that_is_frozen_and_goes_on() -> None:
    figures = await frozen(1)
    assert figures.broken == []
    assert figures.counts["freezes"] == 1
    assert figures.counts["saves that came too late"] > 0


async def test_a_server_that_is_away_for_longer_than_a_call_may_take(tmp_path: Path) -> None:
    figures = await outage(tmp_path / "data", 8)
    # So short an outage says little of memory, which settles later.
    assert [v for v in figures.broken if "KiB" not in v.detail] == []
    assert figures.counts["saves refused"] > 0
    assert figures.counts["saves spooled"] > 10


@pytest.mark.parametrize("found", ["ab", "abcc", "acb", "abcd", "bc", ""])
def test_what_came_out_of_a_spool_in_another_way_than_it_went_in_is_seen(
    found: Sequence[str],
) -> None:
    entries = [Entry(seq, token, token) for seq, token in enumerate(found, 1)]
    assert out_of_order(entries, "abc") is not None
    assert out_of_order([Entry(1, "a", "a"), Entry(2, "b", "b")], "ab") is None


async def test_saves_that_are_contended_and_retried(tmp_path: Path) -> None:
    figures = await contended_saves(tmp_path / "data", 8000)
    assert figures.broken == []
    assert figures.counts["effects"] == figures.counts["ids"] == 2000
    assert figures.counts["cuts"] == 4


async def test_resume_races_across_processes(tmp_path: Path) -> None:
    figures = await resume_races(tmp_path / "data", 50)
    assert figures.broken == []
    assert figures.counts["winners"] == 50
    assert figures.counts["processes that won some"] > 1


async def test_tasks_go_back_to_where_they_were(tmp_path: Path) -> None:
    figures = await memory_kept(tmp_path / "data", 2000, 10)
    # So few operations say nothing of memory, which settles later.
    assert [v for v in figures.broken if "tasks" in v.detail] == []
    assert figures.counts["reconnects"] > 5
