"""An agent of ADK whose conversation is stored is killed at each call: each event is there once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog_projections.messages import MAIN
from tests.integrations.durable.matrix import Came, run_agent, wrong_in
from tests.integrations.durable.test_matrix import DEATHS, made_by
from tests.support.workers import StartWorker

_undisturbed: list[tuple[Came, list[Any]]] = []


async def said_in(store: foldlog.Store, session: str) -> list[Any]:
    """The messages of the conversation, without ids and times; all events are of one invocation."""
    found = await store.view(foldlog.kinds.messages(f"app/ann/{session}"))
    messages = list(found[MAIN])
    bodies = [dict(each.body) for each in messages]
    assert len({each.get("invocation_id") for each in bodies[1:]}) == 1
    for each in bodies:
        for name in ("id", "timestamp", "last_update_time", "invocation_id"):
            each.pop(name, None)
    return bodies


@pytest.mark.parametrize("dies_at", DEATHS)
async def test_a_killed_agent_has_the_conversation_of_an_undisturbed_one(
    store: foldlog.Store, start_worker: StartWorker, tmp_path: Path, dies_at: str
) -> None:
    make = made_by("google.adk", "make_stored")
    if not _undisturbed:
        came = await run_agent(store, start_worker, make, tmp_path / "undisturbed")
        _undisturbed.append((came, await said_in(store, "undisturbed")))
    [(expected, said)] = _undisturbed
    came = await run_agent(store, start_worker, make, tmp_path / "calls", dies_at)
    assert wrong_in(came, expected, dies_at) == []
    assert await said_in(store, dies_at) == said
    assert len(said) == len(["session", "user", "model", "tool", "model", "tools", "model"])
