"""One attempt at opening a store, for everybody who needs it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

from foldlog.errors import FoldlogError, LogUnavailable, ServerStartFailed, StoreClosed
from foldlog.opening import Standby, Store

StandBy = Callable[[FoldlogError], Standby]
"""Makes what stands in for a store that cannot be opened for that reason."""


class Opening:
    """Opens a store when it is first needed, in an attempt that it owns and all callers share.

    An attempt that fails does so for everybody who waits for it; the next one who asks starts
    another. With `stand_by`, they get a store that spools meanwhile, where the log is away.
    """

    def __init__(
        self, open_: Callable[[], Awaitable[Store]], stand_by: StandBy | None = None
    ) -> None:
        self.store: Store | None = None
        self._standby: Standby | None = None
        self._open = open_
        self._stand_by = stand_by
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
        """What the stores that were opened have counted."""
        return sum((store.degraded for store in self._stores()), Counter[str]())

    def release(self) -> list[Store]:
        """Forget the stores and return them: they are the caller's to close, in that order."""
        stores = self._stores()
        self.store, self._standby, self._attempt = None, None, None
        return stores

    def _stores(self) -> list[Store]:
        # The one that stands in first: what it still spools goes through the log of the other.
        standby = [] if self._standby is None else [self._standby.store]
        return standby if self.store is None else [*standby, self.store]

    async def _opened(self) -> Store:
        try:
            store = await self._open()
        except (LogUnavailable, ServerStartFailed) as reason:
            return self._standing_by(reason)
        if self._standby is None:
            return store
        try:
            # What was saved meanwhile comes before what this store will save.
            await self._standby.hand_over(store)
        except LogUnavailable as reason:
            await store.close()
            return self._standing_by(reason)
        except BaseException:
            await store.close()
            raise
        return store

    def _standing_by(self, reason: FoldlogError) -> Store:
        if self._stand_by is None:
            raise reason
        if self._standby is None:
            self._standby = self._stand_by(reason)
        return self._standby.store

    def _ended(self, attempt: asyncio.Task[Store]) -> None:
        failed = attempt.cancelled() or attempt.exception() is not None
        if failed or (self._standby is not None and attempt.result() is self._standby.store):
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
