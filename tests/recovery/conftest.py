"""What the tests of executions share."""

from __future__ import annotations

import pytest

from tests.recovery.running import Steps


@pytest.fixture
def steps() -> Steps:
    """Steps that remember having been called."""
    return Steps()
