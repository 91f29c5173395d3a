"""Runs contract classes on a store without pytest, so that a failure is a result."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from foldlog import testing
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
    testing.ExactPayloadsContract,
    testing.AliasesContract,
)


def checks_of(contract: type[testing.Contract]) -> list[str]:
    """The names of its tests."""
    return [name for name in dir(contract) if name.startswith("test_")]


async def failures(store_class: type[PlainStore]) -> dict[str, BaseException]:
    """What fails of the whole kit, by `<contract>.<test>`."""
    failed: dict[str, BaseException] = {}
    for contract in CONTRACTS:
        for name in checks_of(contract):
            error = await _failure(contract, name, store_class)
            if error is not None:
                failed[f"{contract.__name__.removesuffix('Contract')}.{name}"] = error
    return failed


async def _failure(
    contract: type[testing.Contract], name: str, store_class: type[PlainStore]
) -> BaseException | None:
    data = Data()

    async def reopen() -> PlainStore:
        return store_class(data)

    def pass_time(seconds: float) -> None:
        data.now += seconds

    fixtures: dict[str, Any] = {"restart": reopen, "beside": reopen, "pass_time": pass_time}
    instance = contract()
    # A few: the whole lists, for forty stores, would take long and find no more.
    vars(instance).update(paged=600, hostile_ids=testing.HOSTILE_IDS[:12])
    test = getattr(instance, name)
    wanted = list(inspect.signature(test).parameters)
    try:
        await test(
            store_class(data), **{each: fixtures[each] for each in wanted if each != "store"}
        )
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - whatever a store breaks with
        return error
    return None
