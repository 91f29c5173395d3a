"""What `foldlog.scoped` offers is what it says it does."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import foldlog
from foldlog import scoped
from foldlog.scoped import ScopedReader, ScopedStore, errors as scoped_errors


@pytest.mark.parametrize("name", [name for name in scoped.__all__ if name != "Embedder"])
def test_a_public_name_loads_and_has_words_of_its_own(name: str) -> None:
    doc = getattr(scoped, name).__doc__
    assert doc
    assert not doc.startswith(f"{name}(")


def test_every_error_is_public_and_a_foldlog_error() -> None:
    defined = {
        name: value
        for name, value in vars(scoped_errors).items()
        if isinstance(value, type) and value.__module__ == scoped_errors.__name__
    }
    assert set(defined) <= set(scoped.__all__)
    assert all(issubclass(value, foldlog.FoldlogError) for value in defined.values())


@pytest.mark.parametrize(
    "kind", [ScopedReader, ScopedStore, scoped.Scope, scoped.ContentKind, scoped.Effect]
)
def test_every_method_has_a_docstring(kind: type[Any]) -> None:
    members = {name: value for name, value in inspect.getmembers(kind) if name[0] != "_"}
    methods = {n: v for n, v in members.items() if inspect.isroutine(v) or isinstance(v, property)}
    assert methods
    assert [name for name, value in methods.items() if not inspect.getdoc(value)] == []


async def test_a_store_has_one_scoped_state_and_one_reader() -> None:
    async with foldlog.memory_store() as store:
        assert store.scoped is store.scoped
        assert store.scoped.reader is store.scoped.reader
        assert isinstance(store.scoped, ScopedStore)


async def test_a_store_that_is_closed_answers_no_more() -> None:
    store = foldlog.memory_store()
    one = scoped.Scope.session("s")
    await store.scoped.write(one, "key", 1)
    await store.scoped.search(one, "key", 1)
    await store.close()
    await store.close()
    with pytest.raises(foldlog.StoreClosed):
        await store.scoped.read(one, "key")
    with pytest.raises(foldlog.StoreClosed):
        await store.scoped.write(one, "key", 2)
