"""Runs contract classes on a store without pytest, so that a failure is a result."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple

import pytest

from foldlog import testing
from foldlog.models import ArtifactRetentionConfig
from tests.testing.plain_artifacts import PlainArtifacts
from tests.testing.plain_store import Data, PlainStore

CONTRACTS: tuple[type[testing.Contract], ...] = (
    testing.StateStoreContract,
    testing.BindingsContract,
    testing.PlannerStateContract,
    testing.MemoryStateContract,
    testing.TasksContract,
    testing.UpdatesContract,
    testing.SteeringContract,
    testing.TrajectoriesContract,
    testing.PlannerEventsContract,
    testing.ArtifactsContract,
    testing.SessionArtifactsContract,
    testing.RetentionContract,
    testing.ExactPayloadsContract,
    testing.AliasesContract,
)


class Check(NamedTuple):
    """A test of a contract with one choice of its parameters."""

    contract: type[testing.Contract]
    test: str
    parameters: dict[str, Any]
    suffix: str

    @property
    def name(self) -> str:
        """As in `Updates.test_a_cursor_is_exclusive`."""
        return f"{self.contract.__name__.removesuffix('Contract')}.{self.test}{self.suffix}"


def names_of(contract: type[testing.Contract]) -> list[str]:
    """The names of its tests."""
    return [name for name in dir(contract) if name.startswith("test_")]


def checks_of(contract: type[testing.Contract]) -> Iterator[Check]:
    """Its tests with each choice of their parameters, named as pytest names them."""
    for test in names_of(contract):
        marks = getattr(getattr(contract, test), "pytestmark", [])
        axes = [list(_choices(mark)) for mark in marks if mark.name == "parametrize"]
        for chosen in product(*axes):
            suffix = f"[{'-'.join(label for _, _, label in chosen)}]" if chosen else ""
            yield Check(contract, test, {name: value for name, value, _ in chosen}, suffix)


def _choices(mark: pytest.Mark) -> Iterator[tuple[str, Any, str]]:
    name, values = mark.args
    label = mark.kwargs.get("ids", str)
    return ((name, value, label(value)) for value in values)


CHECKS: tuple[Check, ...] = tuple(check for contract in CONTRACTS for check in checks_of(contract))


async def failure(
    check: Check, store_class: type[PlainStore], **attributes: Any
) -> BaseException | None:
    """How the store fails the check, or None if it passes.

    Args:
        attributes: those of the contract class that say how the store differs.
    """
    data = Data()

    async def reopen() -> PlainStore:
        return store_class(data)

    async def open_with_retention(**limits: Any) -> PlainStore:
        return store_class(data, ArtifactRetentionConfig(**limits))

    async def settled() -> None:
        return None

    def pass_time(seconds: float) -> None:
        data.clock.now += seconds

    fixtures: dict[str, Any] = {
        "restart": reopen,
        "beside": reopen,
        "settled": settled,
        "pass_time": pass_time,
        "open_with_retention": open_with_retention,
        **check.parameters,
    }
    instance = check.contract()
    # A few: the whole lists, for so many stores, would take long and find no more.
    few = {"paged": 600, "hostile_ids": testing.HOSTILE_IDS[:12]}
    vars(instance).update(few | attributes)
    test = getattr(instance, check.test)
    wanted = list(inspect.signature(test).parameters)
    if "store" in wanted:
        fixtures["store"] = store_class(data)
    try:
        with _briefly():
            await test(**{each: fixtures[each] for each in wanted})
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever a store breaks with
        return error
    return None


@contextmanager
def _briefly() -> Iterator[None]:
    """Have pytest say in short why an assertion failed: nobody reads it, and in full, as where
    the environment says CI, it compares megabytes line by line.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CI", "BUILD_NUMBER"):
            patch.delenv(name, raising=False)
        yield


async def failures(
    store_class: type[PlainStore], checks: Iterable[Check] = CHECKS, **attributes: Any
) -> set[str]:
    """The names of the checks that the store fails, of the whole kit if not told otherwise."""
    return {
        check.name
        for check in checks
        if await failure(check, store_class, **attributes) is not None
    }


class Uses:
    """Which checks can tell a store from the plain one: those that use what it overrides.

    A store runs what the plain store runs until something is used that it overrides. A check
    that uses none of it on the plain store therefore ends there as it ends on the plain store:
    it passes, and need not be run.
    """

    def __init__(self, used: dict[str, set[str]]) -> None:
        self._used = used

    @classmethod
    async def observed(cls) -> Uses:
        """What each check uses of the plain store, and of its artifacts."""
        used: dict[str, set[str]] = {}
        for check in CHECKS:
            names = used[check.name] = set()
            assert await failure(check, _observed(names)) is None, check.name
        return cls(used)

    async def failures(self, store_class: type[PlainStore]) -> set[str]:
        """The same as `failures`, sooner."""
        overridden = _overridden(store_class)
        checks = [check for check in CHECKS if overridden & self._used[check.name]]
        return await failures(store_class, checks)


def _observed(names: set[str]) -> type[PlainStore]:
    class ObservedArtifacts(PlainArtifacts):
        def __getattribute__(self, name: str) -> Any:
            names.add(f"Artifacts.{name}")
            return super().__getattribute__(name)

    class ObservedStore(PlainStore):
        Artifacts = ObservedArtifacts

        def __getattribute__(self, name: str) -> Any:
            names.add(name)
            return super().__getattribute__(name)

    names |= {"__init__", "Artifacts.__init__"}  # nobody asks for these by their name
    return ObservedStore


def _overridden(store_class: type[PlainStore]) -> set[str]:
    """What it defines before the plain one does, its artifacts included."""
    artifacts = _own_names(store_class.Artifacts, PlainArtifacts)
    return _own_names(store_class, PlainStore) | {f"Artifacts.{name}" for name in artifacts}


def _own_names(store_class: type, plain: type) -> set[str]:
    mine = store_class.__mro__[: store_class.__mro__.index(plain)]
    ignored = {"__module__", "__doc__", "Artifacts"}
    return {name for each in mine for name in vars(each)} - ignored
