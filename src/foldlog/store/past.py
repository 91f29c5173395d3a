"""The past: a store of a moment, that answers every read and refuses every write."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Generator
from typing import Any, Self

from foldlog.log.blobs import Blobs
from foldlog.log.moments import resolve
from foldlog.log.past import PastBlobs, PastLog
from foldlog.log.port import Log
from foldlog.position import LogPosition
from foldlog.store.moments import When, named
from foldlog.store.options import StoreOptions
from foldlog.store.store import Store


class Past(Store):
    """A store as it was at a moment, made by `Store.at`.

    The moment is found when something is first read, or by `await` or `async with`, and stands from
    then on: nothing that happens later is seen. Closing it leaves the original store open. Pauses
    and artifacts expire by the moment's time. It raises where that store would degrade.

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
        past = PastLog(log, lambda: resolve(log, wanted))
        super().__init__(
            past, PastBlobs(blobs), dataclasses.replace(options, on_error="raise"), loop=loop
        )
        self._moment = past.moment

    def __await__(self) -> Generator[Any, None, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        await self._moment()
        return self

    async def position(self) -> LogPosition:
        """Return the moment's position.

        Raises:
            UnknownMoment: there is no such moment. LogUnavailable, LogCorrupt: see `Store.at`.
        """
        return (await self._moment()).position
