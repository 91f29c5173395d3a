"""Claude Code is killed with its worker at each of six calls, and another worker goes on with it.

Its model calls are made in a subprocess, and are no steps: those around the death may be made
again. A tool's effect is had once, and the answer is that of an undisturbed run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import foldlog
from tests.integrations.durable.matrix import Came, run_agent, wrong_in
from tests.integrations.durable.script import CALLS, MOMENTS, STOPPED
from tests.integrations.missing import is_installed, make_has_it
from tests.support.workers import StartWorker

MADE_BY = "tests.integrations.claude_agent.scripted"
DEATHS = [f"{call} {moment}" for call in CALLS for moment in MOMENTS]
ANSWER = "book Bergen: done, book Oslo: done, search Oslo: done"
TURNS = {"model 1": 1, "search": 1, "model 2": 2, "book": 2, "model 3": 3}

_undisturbed: list[Came] = []


@pytest.fixture(autouse=True)
def _no_claude_of_the_developers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))


@pytest.fixture
async def undisturbed(store: foldlog.Store, start_worker: StartWorker, tmp_path: Path) -> Came:
    """What it does undisturbed."""
    if not is_installed("claude_agent_sdk"):
        make_has_it("claude-agent-sdk")()
    if not _undisturbed:
        file = tmp_path / "undisturbed"
        _undisturbed.append(await run_agent(store, start_worker, f"{MADE_BY}:make", file))
    return _undisturbed[0]


def wrong_for_claude(came: Came, undisturbed: Came, dies_at: str) -> list[str]:
    """What should not have come of it, but for model calls of the turns beside the death.

    The SDK's first versions hand over a transcript when a query ends: it is begun anew.
    """
    from claude_agent_sdk import ClaudeAgentOptions

    [turn] = [number for call, number in TURNS.items() if dies_at.startswith(call)]
    is_told_at_once = hasattr(ClaudeAgentOptions(), "session_store_flush")
    turns = (turn - 1, turn, turn + 1) if is_told_at_once else range(1, 4)
    again = [f"model {number} was made 2 times" for number in turns]
    same, other = (
        each._replace(steps=[step for step in each.steps if "/session " not in step])
        for each in (came, undisturbed)
    )
    return [each for each in wrong_in(same, other, dies_at) if each not in again]


def test_it_does_all_once_undisturbed(undisturbed: Came) -> None:
    assert undisturbed.answer == ANSWER
    assert wrong_in(undisturbed, undisturbed) == []
    assert undisturbed.asked == []


@pytest.mark.parametrize("call", CALLS)
async def test_told_to_stop_it_goes_on_and_asks_nobody(
    store: foldlog.Store, start_worker: StartWorker, tmp_path: Path, undisturbed: Came, call: str
) -> None:
    stops_at = f"{call} {STOPPED}"
    came = await run_agent(store, start_worker, f"{MADE_BY}:make", tmp_path / "calls", stops_at)
    assert wrong_for_claude(came, undisturbed, stops_at) == []
    assert came.asked == []


@pytest.mark.parametrize("dies_at", DEATHS)
async def test_killed_it_goes_on_and_has_no_effect_twice(
    store: foldlog.Store, start_worker: StartWorker, tmp_path: Path, undisturbed: Came, dies_at: str
) -> None:
    came = await run_agent(store, start_worker, f"{MADE_BY}:make", tmp_path / "calls", dies_at)
    assert wrong_for_claude(came, undisturbed, dies_at) == []


@pytest.mark.parametrize(
    ("how", "dies_at", "wrong"),
    [
        ("make_bare", "model 3 begun", "the effect of search Oslo was had 2 times"),
        ("make_repeating", "search Oslo done", "nobody was asked of search Oslo"),
    ],
)
async def test_what_is_no_run_and_what_is_done_again_unasked_is_found_out(
    store: foldlog.Store,
    start_worker: StartWorker,
    tmp_path: Path,
    undisturbed: Came,
    how: str,
    dies_at: str,
    wrong: str,
) -> None:
    came = await run_agent(store, start_worker, f"{MADE_BY}:{how}", tmp_path / "calls", dies_at)
    assert wrong in wrong_for_claude(came, undisturbed, dies_at)
