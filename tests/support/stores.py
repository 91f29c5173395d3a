"""Where a test's stores come from: one backend object per kind of log.

A backend hands out stores over *one* fresh namespace. Every call of `open` gives another store on
the same data, as a second process or a restart would.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any, Protocol

import foldlog

_namespaces = itertools.count(1)


def fresh_namespace() -> str:
    """A namespace that no other test of this run uses."""
    return f"t{next(_namespaces)}"


class Backend(Protocol):
    """Opens stores over the data of one test."""

    name: str

    async def open(self, **options: Any) -> foldlog.Store:
        """Another store on the same data; `options` are those of `foldlog.connect`."""
        ...


class MemoryBackend:
    """Stores over one shared in-memory log."""

    name = "memory"

    def __init__(self) -> None:
        self._namespace = fresh_namespace()
        self._log: Any = None

    async def open(self, **options: Any) -> foldlog.Store:
        options.setdefault("namespace", self._namespace)
        store = foldlog.memory_store(log=self._log, **options)
        self._log = store._core.log
        return store


class EmbeddedBackend:
    """Stores over the embedded server of one data directory."""

    name = "embedded"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._namespace = fresh_namespace()

    async def open(self, **options: Any) -> foldlog.Store:
        options.setdefault("namespace", self._namespace)
        return await foldlog.connect(path=self._path, **options)


class ServerBackend:
    """Stores over a server that runs elsewhere, a container for instance."""

    name = "container"

    def __init__(self, url: str) -> None:
        self._url = url
        self._namespace = fresh_namespace()

    async def open(self, **options: Any) -> foldlog.Store:
        options.setdefault("namespace", self._namespace)
        return await foldlog.connect(self._url, **options)


async def appended(store: foldlog.Store) -> int:
    """How many messages the store's streams ever took: what "nothing was appended" is judged by."""
    return sum(stream.last_seq for stream in (await store.health()).streams)
