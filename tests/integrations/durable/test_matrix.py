"""A scripted agent of six calls is killed at each of them, and another worker goes on with it."""

from __future__ import annotations

from pathlib import Path

import pytest

import foldlog
from tests.integrations.durable.matrix import Came, run_agent, wrong_in
from tests.integrations.durable.script import CALLS, MOMENTS, STOPPED
from tests.integrations.missing import is_installed, make_has_it
from tests.support.workers import StartWorker

FRAMEWORKS = {
    "agent_framework": "tests.integrations.agent_framework.scripted",
    "agents": "tests.integrations.openai_agents.scripted",
    "autogen_agentchat": "tests.integrations.autogen.scripted",
    "google.adk": "tests.integrations.google_adk.scripted",
    "langgraph": "tests.integrations.langgraph.scripted",
    "pydantic_ai": "tests.integrations.pydantic_ai.scripted",
}
"""By the package of a framework, the module with its agent."""

DEATHS = [f"{call} {moment}" for call in CALLS for moment in MOMENTS]
ANSWER = "book Bergen: done, book Oslo: done, search Oslo: done"

_undisturbed: dict[str, Came] = {}


def made_by(framework: str, how: str = "make") -> str:
    """Who makes a framework's agent; the test is skipped where the framework is missing."""
    if not is_installed(framework):
        make_has_it(framework)()
    return f"{FRAMEWORKS[framework]}:{how}"


@pytest.fixture(params=FRAMEWORKS)
async def framework(
    request: pytest.FixtureRequest, store: foldlog.Store, start_worker: StartWorker, tmp_path: Path
) -> str:
    """A framework, of which it is known what its agent does undisturbed."""
    name: str = request.param
    make = made_by(name)
    if name not in _undisturbed:
        _undisturbed[name] = await run_agent(store, start_worker, make, tmp_path / "undisturbed")
    return name


async def test_an_undisturbed_agent_does_all_once(framework: str) -> None:
    came = _undisturbed[framework]
    assert came.answer == ANSWER
    assert wrong_in(came, came) == []
    assert came.asked == []


@pytest.mark.parametrize("call", CALLS)
async def test_an_agent_whose_worker_is_told_to_stop_goes_on_and_asks_nobody(
    store: foldlog.Store, start_worker: StartWorker, tmp_path: Path, framework: str, call: str
) -> None:
    stops_at, make = f"{call} {STOPPED}", made_by(framework)
    came = await run_agent(store, start_worker, make, tmp_path / "calls", stops_at)
    assert wrong_in(came, _undisturbed[framework], stops_at) == []
    assert came.asked == []


@pytest.mark.parametrize("dies_at", DEATHS)
async def test_a_killed_agent_goes_on_and_does_nothing_twice(
    store: foldlog.Store, start_worker: StartWorker, tmp_path: Path, framework: str, dies_at: str
) -> None:
    came = await run_agent(store, start_worker, made_by(framework), tmp_path / "calls", dies_at)
    assert wrong_in(came, _undisturbed[framework], dies_at) == []


async def test_an_agent_that_is_no_run_is_found_out(
    store: foldlog.Store, start_worker: StartWorker, tmp_path: Path, framework: str
) -> None:
    dies_at, make = "model 2 begun", made_by(framework, "make_bare")
    came = await run_agent(store, start_worker, make, tmp_path / "calls", dies_at)
    wrong = wrong_in(came, _undisturbed[framework], dies_at)
    assert "model 1 was made 2 times" in wrong
    assert "the effect of search Oslo was had 2 times" in wrong


async def test_a_tool_that_is_done_again_unasked_is_found_out(
    store: foldlog.Store, start_worker: StartWorker, tmp_path: Path, framework: str
) -> None:
    dies_at, make = "search Oslo done", made_by(framework, "make_repeating")
    came = await run_agent(store, start_worker, make, tmp_path / "calls", dies_at)
    wrong = wrong_in(came, _undisturbed[framework], dies_at)
    assert "the effect of search Oslo was had 2 times" in wrong
    assert "nobody was asked of search Oslo" in wrong
