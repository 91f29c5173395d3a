"""Who waits for streams is woken by one subscription to all of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from foldlog.opening import Store

Keys = tuple[str, ...]


class Wakes:
    """Futures of readers, by the keys of what they wait for. One task, while there are readers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[Keys, set[asyncio.Future[None]]] = {}
        self._readers = Counter[Keys]()
        self._task: asyncio.Task[None] | None = None
        self._began: asyncio.Future[None] | None = None

    @asynccontextmanager
    async def listening(self, keys: Keys) -> AsyncIterator[Callable[[], asyncio.Future[None]]]:
        """Give what makes a future, which is done once there may be more of a stream.

        Whatever was appended after the future was made sets it. What the subscription raised is
        raised where a future is asked for.
        """
        self._readers[keys] += 1
        try:
            if self._task is None or self._task.done():
                self._began = asyncio.get_running_loop().create_future()
                follow = self._follow(self._began)
                self._task = asyncio.create_task(follow, name="foldlog streams")
            assert self._began is not None
            await asyncio.shield(self._began)
            made: asyncio.Future[None] | None = None

            def arm() -> asyncio.Future[None]:
                nonlocal made
                task = self._task
                if task is not None and task.done() and not task.cancelled():
                    task.result()
                if made is not None:
                    self._waiting.get(keys, set()).discard(made)
                made = asyncio.get_running_loop().create_future()
                self._waiting.setdefault(keys, set()).add(made)
                return made

            try:
                yield arm
            finally:
                if made is not None and (waiting := self._waiting.get(keys)) is not None:
                    waiting.discard(made)
                    if not waiting:
                        del self._waiting[keys]
        finally:
            self._readers[keys] -= 1
            if not self._readers[keys]:
                del self._readers[keys]
            if not self._readers and (task := self._task) is not None:
                self._task = None
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _follow(self, began: asyncio.Future[None]) -> None:
        try:
            position = await self._store.position()
            began.set_result(None)
            following = self._store.subscribe(["streams"], after=position)
            async with aclosing(following.pages()) as pages:
                async for page in pages:
                    for keys in {item.keys for item in page.items}:
                        self._wake(keys)
        except BaseException as error:
            if not began.done():
                began.set_exception(error) if isinstance(error, Exception) else began.cancel()
            raise
        finally:
            for keys in list(self._waiting):
                self._wake(keys)

    def _wake(self, keys: Keys) -> None:
        for each in self._waiting.pop(keys, ()):
            if not each.done():
                each.set_result(None)
