"""What the tests of executions share."""

from __future__ import annotations

import pytest

from tests.integrations.rh_agents.running import Steps
from tests.support.in_memory_first import backend as backend


@pytest.fixture
def steps() -> Steps:
    """Steps that remember having been called."""
    return Steps()
