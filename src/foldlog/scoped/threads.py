"""Where search indexes are worked on: what blocks stays away from the event loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

from foldlog.scoped.index import Index

P = ParamSpec("P")
T = TypeVar("T")

_THREADS: Final = 4
"""Scopes that are worked on at a time; SQLite takes as many cores."""


class Threads:
    """Threads for the indexes of a store, and one for its embedder. They live until `close`."""

    def __init__(self) -> None:
        self._indexes = ThreadPoolExecutor(_THREADS, thread_name_prefix="foldlog-search")
        # A call that was given up goes on; the next one comes after it.
        self._embedder = ThreadPoolExecutor(1, thread_name_prefix="foldlog-embedder")

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that uses no open index."""
        return await _run(self._indexes, functools.partial(function, *args, **kwargs))

    async def on(
        self, index: Index, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call a function that uses an index.

        What was cancelled here may still be under way there, so the index is locked.
        """

        def locked() -> T:
            with index.lock:
                return function(*args, **kwargs)

        return await _run(self._indexes, locked)

    async def embed(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call an embedder."""
        return await _run(self._embedder, functools.partial(function, *args, **kwargs))

    def close(self) -> None:
        """Let the threads end."""
        self._indexes.shutdown(wait=False)
        self._embedder.shutdown(wait=False)


async def _run(executor: Executor, call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(executor, call)
