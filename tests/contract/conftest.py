"""What a Store owes, it owes on every backend."""

from __future__ import annotations

import pytest

from tests.conftest import backend_of
from tests.support.stores import Backend


@pytest.fixture(params=["memory", "embedded", "container"])
def backend(request: pytest.FixtureRequest) -> Backend:
    """One backend over data that no other test sees."""
    return backend_of(request)
