"""Workers are killed and frozen while they do runs with sleeps, questions and children.

Each run ends as it should, and each effect is there once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workers.processes.storm import storm

pytestmark = pytest.mark.long


async def test_each_run_ends_and_each_effect_is_there_once(
    embedded_path: Path, tmp_path: Path
) -> None:
    found = await storm(str(embedded_path), tmp_path, runs=12, kills=4, freezes=1)
    assert found.broken == []
    assert found.counts["kill"] == 4
    assert found.counts["COMPLETE"] > 0
