"""The kit finds every bug, where it is, and nothing else."""

from __future__ import annotations

import pytest

from tests.testing.broken_stores import BROKEN
from tests.testing.plain_store import PlainStore
from tests.testing.running import CONTRACTS, checks_of, failures


async def test_a_correct_store_passes() -> None:
    assert await failures(PlainStore) == {}


@pytest.mark.parametrize("store", BROKEN, ids=lambda store: store.__name__)
async def test_a_broken_store_fails_where_it_is_broken(store: type[PlainStore]) -> None:
    assert BROKEN[store]
    assert set(await failures(store)) == BROKEN[store]


def test_there_are_enough_of_them() -> None:
    """Each contract class is seen to fail, by at least one store."""
    assert len(BROKEN) >= 15
    failing = {test.partition(".")[0] for tests in BROKEN.values() for test in tests}
    known = {f"{c.__name__.removesuffix('Contract')}.{t}" for c in CONTRACTS for t in checks_of(c)}
    assert failing == {c.__name__.removesuffix("Contract") for c in CONTRACTS}
    assert [test for tests in BROKEN.values() for test in tests if test not in known] == []
