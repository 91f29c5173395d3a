"""For what stands on the primitives alone: in memory by `make test`, on a server at length.

The contract suite tries the primitives on every backend each time.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import BACKENDS, CONTAINER, backend_named
from tests.support.stores import Backend

EMBEDDED = pytest.param("embedded", marks=pytest.mark.long)
PARAMETERS = [*(EMBEDDED if each == "embedded" else each for each in BACKENDS), CONTAINER]

in_memory_first = pytest.mark.parametrize("backend", PARAMETERS, indirect=True)


@pytest.fixture(params=PARAMETERS)
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """One backend over data that no other test sees; for the conftest of a facade's tests."""
    yield from backend_named(request)
