"""The broken stores, and the tests of the kit that find each."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from foldlog.testing.retention import LIMITS
from tests.testing.plain_store import PlainStore

BROKEN: dict[type[PlainStore], set[str]] = {}

Store = type[PlainStore]

LISTS = "Updates Steering"
ALL_LIMITS = tuple(next(iter(limit)) for limit in LIMITS)
BYTES = tuple(limit for limit in ALL_LIMITS if limit.endswith("_bytes"))
TRACE = tuple(limit for limit in ALL_LIMITS if "_trace" in limit)


def found_by(*tests: str) -> Callable[[Store], Store]:
    """The tests that must fail on the store, by `<contract>.<test>`; all others must pass."""

    def register(store: Store) -> Store:
        BROKEN[store] = set(tests)
        assert len(BROKEN[store]) == len(tests), f"{store.__name__} names a test twice"
        return store

    return register


def each(contracts: str, tests: Iterable[str]) -> list[str]:
    """The tests of several contracts that share them, as in `each("Updates Steering", [...])`."""
    return [f"{contract}.{test}" for contract in contracts.split() for test in tests]


def each_limit(
    test: str, limits: Iterable[str] = ALL_LIMITS, strategies: Iterable[str] = ("",)
) -> list[str]:
    """A test of retention with each limit, and each strategy where it is made with several."""
    return [
        f"{test}[{'-'.join(filter(None, (strategy, limit)))}]"
        for strategy in strategies
        for limit in limits
    ]
