"""A scope of a hundred thousand keys: no call loads what it does not need."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from foldlog.scoped import Scope
from tests.conftest import OpenStore

pytestmark = pytest.mark.long

BIG = Scope.custom("big")
KEYS = 100_000
EACH = 900
VALUE_BYTES = 400


def value(number: int) -> dict[str, Any]:
    text = f"number{number} group{number // 100} " + "x" * VALUE_BYTES
    return {"text": text, "number": number}


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Any:
    from tests.support.stores import EmbeddedBackend

    return EmbeddedBackend(request.getfixturevalue("embedded_path"))


async def filled(store: foldlog.Store, keys: int) -> None:
    for start in range(0, keys, EACH):
        numbers = range(start, min(start + EACH, keys))
        await store.scoped.write_many(BIG, {f"k:{n:06}": value(n) for n in numbers})


async def test_keys_are_listed_read_and_walked_without_values(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled(await reopen(), KEYS)
    store = await reopen()
    asked, last = list[str](), store.scoped._keys.last

    async def counted(scope: Scope, key: str, *args: Any) -> Any:
        asked.append(key)
        return await last(scope, key, *args)

    monkeypatch.setattr(store.scoped._keys, "last", counted)
    assert await store.scoped.read(BIG, "k:077777") == value(77_777)
    assert BIG not in store.scoped._indexes._open
    assert await store.scoped.list(BIG, "k:0123") == [f"k:{n:06}" for n in range(12_300, 12_400)]
    assert len(await store.scoped.list(BIG)) == KEYS
    assert await store.scoped.traverse(BIG, "k:000001", None, 3) == []
    assert await store.scoped.read(BIG, "k:000002") == value(2)
    assert asked == ["k:077777", "k:000002"]
    assert store._core.hot_views._hot.bytes < KEYS  # the two that were read


async def test_a_search_reads_values_once_and_holds_none(
    reopen: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = 20_000
    await filled(await reopen(), keys)
    store = await reopen()
    [found] = await store.scoped.search(BIG, "number12345", 10)
    assert found.key == "k:012345"
    assert len(await store.scoped.search(BIG, "group123", 1000)) == 100

    def refuse(*args: Any) -> Any:
        raise AssertionError("a value was read again")

    another = await reopen()
    monkeypatch.setattr(another.scoped._keys, "last", refuse)
    [found] = await another.scoped.search(BIG, "number12345", 10)
    assert found.key == "k:012345"
