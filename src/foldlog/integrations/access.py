"""How an adapter's object reaches its store: from coroutines, and from code that blocks.

A store that the caller opened belongs to the caller's event loop. One that blocking code opened
lives on a thread of its own: `foldlog.blocking`.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from typing import Any, Concatenate, Final, Generic, ParamSpec, Protocol, Self, TypeVar

import foldlog
from foldlog.blocking import BlockingStore
from foldlog.blocking.bridge import StoreThread
from foldlog.blocking.loop_thread import wait
from foldlog.errors import ConfigurationError, Misuse
from foldlog.opening import Store
from foldlog.store.core import core_of

P = ParamSpec("P")
T = TypeVar("T")
Use = Callable[[Store], Coroutine[Any, Any, T]]
"""What is done with the open store, on its event loop."""

AnyStore = Store | BlockingStore | StoreThread

MEMORY: Final = ":memory:"


class WouldBlock(ConfigurationError, asyncio.InvalidStateError):
    """A blocking call on the event loop of the store that it is for: it would wait for itself."""

    def __init__(self) -> None:
        super().__init__(
            "a blocking call on the store's own event loop would wait for itself: await the method "
            "that begins with `a`, or open the store with `with` or foldlog.blocking.connect()"
        )


class Access(Protocol):
    """A store, for callers on any event loop and any thread."""

    async def acall(self, use: Use[T], *, until_closed: bool = False) -> T:
        """Do something with the store, and return what that gives.

        Args:
            until_closed: it may wait for ever, and ends when the store closes.
        """

    def call(self, use: Use[T], *, until_closed: bool = False) -> T:
        """As `acall`, for code that blocks."""


def access_to(store: AnyStore) -> Access:
    """Return how to reach a store that was opened already."""
    if isinstance(store, Store):
        return _OnLoop(store)
    return _OnThread(store.thread if isinstance(store, BlockingStore) else store)


class _OnLoop:
    """A store on the event loop that it was opened in; one in memory, on the loop it is met in."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = core_of(store).backend.loop or _running()

    async def acall(self, use: Use[T], *, until_closed: bool = False) -> T:
        running = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = running
        if self._loop is running:
            return await use(self._store)
        begun = asyncio.run_coroutine_threadsafe(use(self._store), self._loop)
        return await asyncio.wrap_future(begun)

    def call(self, use: Use[T], *, until_closed: bool = False) -> T:
        if _running() is not None and self._loop in (None, _running()):
            raise WouldBlock
        if self._loop is None or not self._loop.is_running():
            raise Misuse(
                "the event loop of this store is not running, so that blocking calls would wait "
                "for ever: open the store with foldlog.blocking.connect()"
            )
        return wait(asyncio.run_coroutine_threadsafe(use(self._store), self._loop))


class _OnThread:
    """A store on a thread of its own."""

    def __init__(self, thread: StoreThread) -> None:
        self._thread = thread

    async def acall(self, use: Use[T], *, until_closed: bool = False) -> T:
        return await asyncio.wrap_future(self._thread.begin(use, until_closed=until_closed))

    def call(self, use: Use[T], *, until_closed: bool = False) -> T:
        return self._thread.call(use, until_closed=until_closed)


class OnStore:
    """What an adapter's classes share that can have a store of their own."""

    @classmethod
    def from_store(cls, store: AnyStore, **options: Any) -> Self:
        """Return an object on an open store.

        Args:
            store: from `foldlog.connect`, `foldlog.memory_store` or `foldlog.blocking.connect`.
            options: those of the class.
        """
        return cls(store, **options)  # type: ignore[call-arg]

    @classmethod
    def from_conn_string(cls, url_or_path: str | os.PathLike[str], **options: Any) -> Opened[Self]:
        """Open a store, and close it at the end of `with`, or of `async with`.

        With `with`, all methods may be called on any thread and any event loop.

        Args:
            url_or_path: a URL of NATS servers, a directory for the embedded one, or ":memory:".
            options: those of the class, and of `foldlog.connect`; with ":memory:", of
                `foldlog.memory_store`.

        Raises (when entered):
            ConfigurationError: an option cannot work, or the server refuses the credentials.
            LogUnavailable, UnsupportedServer, ServerStartFailed: there is no usable server.
        """
        makers = (vars(each).get("__init__") for each in cls.__mro__)
        defaults = (getattr(each, "__kwdefaults__", None) for each in makers)
        known = {name for each in defaults for name in each or ()}
        own = {name: options.pop(name) for name in known & options.keys()}
        return Opened(os.fspath(url_or_path), lambda store: cls.from_store(store, **own), options)


class Opened(Generic[T]):
    """An object on a store of its own: enter it with `with`, or with `async with`.

    Args:
        target: a URL of NATS servers, a directory for the embedded one, or ":memory:".
        make: makes the object.
        options: as `foldlog.connect`.
    """

    def __init__(self, target: str, make: Callable[[AnyStore], T], options: dict[str, Any]) -> None:
        self._target = target
        self._make = make
        self._options = options
        self._store: Store | None = None
        self._thread: StoreThread | None = None

    def __enter__(self) -> T:
        self._thread = StoreThread(self)
        try:
            self._thread.call(_nothing)
            return self._make(self._thread)
        except BaseException:
            self._thread.close()
            raise

    def __exit__(self, *raised: object) -> None:
        if self._thread is not None:
            self._thread.close()

    async def __aenter__(self) -> T:
        self._store = await self
        try:
            return self._make(self._store)
        except BaseException:
            await self._store.close()
            raise

    async def __aexit__(self, *raised: object) -> None:
        if self._store is not None:
            await self._store.close()

    def __await__(self) -> Generator[Any, None, Store]:
        """Open the store, which the caller closes."""
        return self._open().__await__()

    async def _open(self) -> Store:
        if self._target == MEMORY:
            return foldlog.memory_store(**self._options)
        if "://" in self._target:
            return await foldlog.connect(self._target, **self._options)
        return await foldlog.connect(path=self._target, **self._options)


# --- the methods of code that blocks ------------------------------------------------------------


class Accessing(Protocol):
    """What has an access to its store."""

    _access: Access


A = TypeVar("A", bound=Accessing)


def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[A, P], T]:
    """Return a coroutine method as one that blocks. It awaits its access, and nothing else."""

    @functools.wraps(method)
    def call(self: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return _run(method(_blocked(self), *args, **kwargs))

    return call


def iterating(
    method: Callable[Concatenate[A, P], AsyncGenerator[T]],
) -> Callable[Concatenate[A, P], Iterator[T]]:
    """As `blocking`, of a method that yields."""

    @functools.wraps(method)
    def iterate(self: A, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        items = method(_blocked(self), *args, **kwargs)
        try:
            with suppress(StopAsyncIteration):
                while True:
                    yield _run(items.__anext__())
        finally:
            _run(items.aclose())

    return iterate


class _Blocked:
    """An access whose coroutines block where those of another one wait."""

    def __init__(self, access: Access) -> None:
        self.call = access.call

    async def acall(self, use: Use[T], *, until_closed: bool = False) -> T:
        return self.call(use, until_closed=until_closed)


def _blocked(accessing: A) -> A:
    """Return the same object with an access that blocks."""
    same = copy.copy(accessing)
    same._access = _Blocked(accessing._access)
    return same


def _run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing on this thread, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    coroutine.close()
    raise RuntimeError("it waits for something else than its store")


async def _nothing(store: Store) -> None:
    """All that opening it takes."""


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
