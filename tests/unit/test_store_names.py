"""What a user finds on a store: each name is there for them, and says so."""

from __future__ import annotations

import inspect

import foldlog

MOST = 74
"""Public names of a store: 70, `start` and `queues` of workers, `subscribe` and `projected`.

A new one is a promise to users: raise this only with such a promise.
"""


def test_every_public_name_of_a_store_is_for_users() -> None:
    store = foldlog.memory_store()
    names = [name for name in dir(store) if not name.startswith("_")]
    assert len(names) <= MOST, f"{len(names)} names: {names}"
    for name in names:
        said = inspect.getdoc(inspect.getattr_static(store, name))
        assert said, name
        assert not said.startswith("Internal"), name
