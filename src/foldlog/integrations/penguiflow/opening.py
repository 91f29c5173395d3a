"""One attempt at opening a store, for everybody who needs it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from foldlog.errors import StoreClosed
from foldlog.opening import Store
from foldlog.store.core import core_of


class Opening:
    """Opens a store when it is first needed, in an attempt that it owns and all callers share.

    An attempt that fails does so for everybody who waits for it; the next one who asks starts
    another.
    """

    def __init__(self, open_: Callable[[], Awaitable[Store]]) -> None:
        self.store: Store | None = None
        self._open = open_
        self._attempt: asyncio.Task[Store] | None = None

    def attempt(self) -> asyncio.Task[Store]:
        """Return the attempt that is under way or has succeeded, else a new one: for `opened`."""
        if self._attempt is None:
            self._attempt = asyncio.ensure_future(self._opened())
            self._attempt.add_done_callback(self._ended)
        return self._attempt

    async def give_up(self) -> None:
        """End an attempt that is under way; who waits for it gets StoreClosed."""
        attempt = self._attempt
        if attempt is not None and not attempt.done():
            attempt.cancel()
            await asyncio.wait({attempt})

    @property
    def degraded(self) -> Counter[str]:
        """What the store that was opened has counted."""
        return Counter() if self.store is None else Counter(core_of(self.store).calls.failures)

    def release(self) -> Store | None:
        """Forget the store, if one was opened, and return it: it is the caller's to close."""
        store, self.store, self._attempt = self.store, None, None
        return store

    async def _opened(self) -> Store:
        return await self._open()

    def _ended(self, attempt: asyncio.Task[Store]) -> None:
        if attempt.cancelled() or attempt.exception() is not None:
            self._attempt = None
        else:
            self.store = attempt.result()


async def opened(attempt: asyncio.Task[Store]) -> Store:
    """Return what an attempt opens. Who is cancelled while waiting leaves it to the others.

    Raises:
        StoreClosed: the attempt was given up.
        Others: as the attempt did.
    """
    if not attempt.done():
        await asyncio.wait({attempt})
    if attempt.cancelled():
        raise StoreClosed
    return attempt.result()
