"""What a saver's store yields or makes: iterators for any code, and stores of past moments."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from foldlog.errors import StoreClosed
from foldlog.integrations.access import Access, Use, iterating
from foldlog.opening import Store

T = TypeVar("T")


class Derived:
    """A store that another one makes, with its first call: that of a past moment."""

    def __init__(self, access: Access, derive: Callable[[Store], Store]) -> None:
        self._access = access
        self._derive = derive
        self._store: Store | None = None

    def call(self, use: Use[T], *, until_closed: bool = False) -> T:
        return self._access.call(self._used(use), until_closed=until_closed)

    async def acall(self, use: Use[T], *, until_closed: bool = False) -> T:
        return await self._access.acall(self._used(use), until_closed=until_closed)

    def _used(self, use: Use[T]) -> Use[T]:
        async def of_derived(store: Store) -> T:
            if self._store is None:
                self._store = self._derive(store)
            return await use(self._store)

        return of_derived


class Following(Generic[T]):
    """What a store yields, for `for` and for `async for`."""

    def __init__(
        self,
        access: Access,
        begin: Callable[[Store], AsyncGenerator[T]],
        shown: Callable[[T], Any],
    ) -> None:
        self._access = access
        self._begin = begin
        self._shown = shown

    async def __aiter__(self) -> AsyncGenerator[Any]:
        items = _Items(self._begin)
        try:
            while (found := await self._access.acall(items.take, until_closed=True))[0]:
                yield self._shown(found[1])
        finally:
            with suppress(StoreClosed):  # which has ended it
                await self._access.acall(items.close)

    __iter__: Final = iterating(__aiter__)


class _Items:
    """An iterator of a store's, from the first look at it on."""

    def __init__(self, begin: Callable[[Store], AsyncGenerator[Any]]) -> None:
        self._begin = begin
        self._items: AsyncGenerator[Any] | None = None

    async def take(self, store: Store) -> tuple[bool, Any]:
        if self._items is None:
            self._items = self._begin(store)
        try:
            return True, await anext(self._items)
        except StopAsyncIteration:
            return False, None

    async def close(self, store: Store) -> None:
        if self._items is not None:
            await self._items.aclose()
