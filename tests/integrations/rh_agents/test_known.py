"""What an execution has done, it knows, also where its process trusts no push."""

from __future__ import annotations

import pytest

import foldlog
from foldlog.integrations.rh_agents import StateBackend
from tests.integrations.rh_agents.conftest import Steps


async def test_an_execution_knows_what_it_has_done(
    store: foldlog.Store, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foldlog.views.views.TRUST_SECONDS", 0.0)  # memory is never current
    async with StateBackend(store).execution("e") as run:
        await run.step("a", steps.giving("a", 1))
        assert run.has_completed_event("a")
        assert await run.get_event_result("a") == 1
        [event] = run.to_snapshot().execution_state["history"]["events"]
    assert event["execution_status"] == "completed"
