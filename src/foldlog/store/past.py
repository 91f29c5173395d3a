"""The past: a store of a moment, that answers every read and refuses every write."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import functools
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, ParamSpec, Self, TypeVar

from foldlog.errors import ReadOnlyStore
from foldlog.log.blobs import Blobs
from foldlog.log.moments import resolve
from foldlog.log.past import PastLog
from foldlog.log.port import Log
from foldlog.position import LogPosition
from foldlog.store.artifacts import Artifacts
from foldlog.store.moments import When, named
from foldlog.store.store import Store, StoreOptions

P = ParamSpec("P")
T = TypeVar("T")

_ALSO_REFUSED: Final = ("fork", "erase_session", "rebuild")
_ARTIFACTS_REFUSED: Final = ("put_bytes", "put_text", "delete", "clear_session", "clear")


class Past(Store):
    """A store as it was at a moment, made by `Store.at`.

    It is found when something is first read, or by `await` or `async with`, and stands from then
    on: nothing that happens later is seen, and closing it leaves the store open that it is of.
    Pauses and artifacts expire by the moment's time. It raises where that store would degrade.

    Reads raise UnknownMoment where there is no such moment, and PastErased for what was cleared or
    deleted since. Everything that writes raises ReadOnlyStore.
    """

    def __init__(
        self,
        log: Log,
        blobs: Blobs,
        options: StoreOptions,
        when: When,
        *,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        wanted = named(when, log.namespace)
        self._past = PastLog(log, lambda: resolve(log, wanted))
        super().__init__(
            self._past,
            blobs,
            dataclasses.replace(options, on_error="raise"),
            loop=loop,
        )
        for name in _ALSO_REFUSED:
            setattr(self, name, _refusing(getattr(self, name)))
        self.artifact_store = _read_only(self.artifact_store)

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        await self._past.moment()
        return self

    async def position(self) -> LogPosition:
        """Return the moment's position.

        Raises:
            UnknownMoment: there is no such moment. LogUnavailable, LogCorrupt: see `Store.at`.
        """
        return (await self._past.moment()).position

    def atomic(self) -> AbstractAsyncContextManager[None]:
        """Refuse.

        Raises:
            ReadOnlyStore: always.
        """
        raise ReadOnlyStore("atomic")

    def _writing(
        self, method: Callable[P, Coroutine[Any, Any, None]]
    ) -> Callable[P, Coroutine[Any, Any, None]]:
        return _refusing(method)


def _refusing(
    method: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    async def refused(*args: P.args, **kwargs: P.kwargs) -> T:
        raise ReadOnlyStore(method.__name__)

    return refused


def _read_only(artifacts: Artifacts) -> Artifacts:
    guarded = copy.copy(artifacts)
    for name in _ARTIFACTS_REFUSED:
        setattr(guarded, name, _refusing(getattr(artifacts, name)))
    return guarded
