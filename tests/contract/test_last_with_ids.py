"""A retry of a save that was replaced since changes nothing, whoever makes it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import foldlog
from tests.conftest import OpenStore


class Price(msgspec.Struct, frozen=True):
    id: str
    euros: int
    of: str = "tea"


def _prices(name: str, fold: foldlog.Fold[Any], id: Any) -> foldlog.Kind[Any]:
    return foldlog.Kind(name, keys=("shop",), records={f"{name}.saved": Price}, fold=fold, id=id)


KINDS = [
    _prices("last_by_id", foldlog.last, foldlog.field_id("id")),
    _prices("last_by_content", foldlog.last, foldlog.content_digest),
    _prices("last_of_each", foldlog.last_by("of"), foldlog.field_id("id")),
]


def price_in(state: Any) -> Price:
    found = state["tea"] if isinstance(state, dict) else state
    assert isinstance(found, Price)
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_a_retry_of_what_was_replaced_replaces_nothing(
    reopen: OpenStore, kind: foldlog.Kind[Any]
) -> None:
    store, other = await reopen(kinds=KINDS), await reopen(kinds=KINDS)
    old, new, newest = Price("a", 1), Price("b", 2), Price("c", 3)
    key = kind("corner")

    async def check(wanted: Price) -> None:
        for reader in (store, other, await reopen(kinds=KINDS)):
            assert price_in(await reader.view(key, consistency="strong")) == wanted

    await store.append(key, old)
    await store.append(key, new)
    await other.append(key, old)
    await check(new)
    await store.append(key, newest)
    await store.append(key, old)
    await other.append(key, new)
    await check(newest)
    assert (await store.verify()).is_good
    assert (await store.rebuild()).differing == ()
    await check(newest)
