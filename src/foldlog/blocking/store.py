"""The whole store for code that blocks: what is a coroutine there is a plain call here.

Watchers are iterators, which raise StoreClosed when the store closes; what is entered by
`async with` is entered by `with`; facades and sessions are wrapped alike. Values are what they are.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any, Final, Generic, Self, TypeVar, cast

import foldlog
from foldlog.blocking.bridge import OnThread, StoreThread
from foldlog.blocking.desk import Desk
from foldlog.errors import AppendConflict, StoreClosed
from foldlog.opening import Store
from foldlog.runs.steps import is_async
from foldlog.store.core import DECIDE_SECONDS

T = TypeVar("T")

_block: Final[contextvars.ContextVar[contextvars.Context | None]] = contextvars.ContextVar(
    "block", default=None
)
"""The context of the `with` block that the caller is in: `atomic()` knows its saves by it."""


class Blocking(Generic[T]):
    """An object of a store whose methods block, made by `foldlog.blocking.connect`'s store.

    It has the attributes and methods of what it wraps, with the same arguments, results and errors;
    any thread may call them. A function that is given as an argument may be a plain one or a
    coroutine function; it is called on the store's thread, and must not call this object. A plain
    one holds up the store until it returns: let a slow step be `asyncio.to_thread`.
    """

    def __init__(self, thread: StoreThread, find: Callable[[Store], T]) -> None:
        self._thread = thread
        self._find = find

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)

        async def look(store: Store) -> Any:
            return getattr(self._find(store), name)

        found = self._thread.call(look, _block.get())
        if not callable(found):
            return self._wrapped(found, lambda store: getattr(self._find(store), name))

        @functools.wraps(found)
        def call(*args: Any, **kwargs: Any) -> Any:
            async def on(store: Store) -> Any:
                result = getattr(self._find(store), name)(*args, **kwargs)
                return await result if inspect.isawaitable(result) else result

            result = self._thread.call(on, _block.get())
            return self._wrapped(result, lambda store: result)

        return call

    def __enter__(self) -> Self:
        async def enter(store: Store) -> None:
            await self._find(store).__aenter__()  # type: ignore[attr-defined]  # raises if it is none

        self._thread.call(enter, _block.get())
        return self

    def __exit__(self, *raised: Any) -> None:
        async def leave(store: Store) -> None:
            await self._find(store).__aexit__(*raised)  # type: ignore[attr-defined]

        self._thread.call(leave, _block.get())

    def __dir__(self) -> list[str]:
        async def look(store: Store) -> list[str]:
            return dir(self._find(store))

        return self._thread.call(look)

    def _wrapped(self, value: Any, find: Callable[[Store], Any]) -> Any:
        if isinstance(value, AsyncIterator):
            return self._iterated(value)
        if isinstance(value, foldlog.Run):
            return BlockingRun(self._thread, lambda store: value)
        if _has_coroutines(value):
            return Blocking(self._thread, find)
        return self._entered(value) if isinstance(value, AbstractAsyncContextManager) else value

    def _iterated(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        async def take(store: Store) -> tuple[bool, Any]:
            try:
                return True, await anext(items)
            except StopAsyncIteration:
                return False, None

        async def close(store: Store) -> None:
            if (aclose := getattr(items, "aclose", None)) is not None:
                await aclose()

        try:
            while (found := self._thread.call(take, until_closed=True))[0]:
                yield found[1]
        finally:
            with suppress(StoreClosed):  # which has closed it
                self._thread.begin(close)  # not awaited: the collector drops it on any thread

    @contextmanager
    def _entered(self, block: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
        context = _block.get() or contextvars.copy_context()

        async def enter(store: Store) -> Any:
            return await block.__aenter__()

        async def leave(store: Store, *raised: Any) -> bool:
            return bool(await block.__aexit__(*raised))

        entered = self._thread.call(enter, context)
        token = _block.set(context)
        try:
            yield self._wrapped(entered, lambda store: entered)
        except BaseException as error:
            _block.reset(token)
            raised = type(error), error, error.__traceback__
            if not self._thread.call(lambda store: leave(store, *raised), context):
                raise
        else:
            _block.reset(token)
            self._thread.call(lambda store: leave(store, None, None, None), context)


class BlockingRun(Blocking[foldlog.Run]):
    """A run for code that blocks: `with store.run("book-oslo") as run:`.

    Steps that are plain functions are called on the thread that calls `step`. They may use the
    store, and do steps of their own.
    """

    def step(self, name: str, function: Callable[..., T], /, *args: Any, **options: Any) -> T:
        """Do a step once: call a function and record its result, or return the recorded result.

        Args:
            name: the step's name, the same in every execution of the code.
            function: what to call, plain or a coroutine function. A coroutine function runs on the
                store's thread.
            args: passed to the function.
            options: the options of `foldlog.Run.step`, and what else the function takes by name.

        Raises:
            Exception: what the function raises; and as `foldlog.Run.step`.
        """
        desk = Desk()

        @functools.wraps(function)
        async def called(*args: Any, **kwargs: Any) -> T:
            return await desk.ask(functools.partial(function, *args, **kwargs))

        given = function if is_async(function) else called

        async def on(store: Store) -> Any:
            return await self._find(store).step(name, given, *args, **options)

        with desk.served(self._thread.begin(on, _block.get())) as outcome:
            return cast(T, outcome.result())


class BlockingStore(OnThread, Blocking[Store]):
    """A store for code that blocks, made by `foldlog.blocking.connect`. Lives until `close`.

    It has every method of `foldlog.Store`, with the same arguments, results and errors; `transact`
    takes a plain function.
    """

    def __init__(self, thread: StoreThread) -> None:
        Blocking.__init__(self, thread, lambda store: store)

    def transact(self, body: Callable[[], T], *, timeout: float = DECIDE_SECONDS) -> T:
        """Call `body` in an `atomic()` block, and again while others write to what it decides on.

        Args:
            body: a plain function, called on this thread; it calls this store. It may run several
                times; what it saves takes effect once.
            timeout: seconds after which it is not called again.

        Returns:
            What `body` returns.

        Raises:
            AppendConflict: others wrote all the time. Nothing was appended.
            LogUnavailable, AppendFailed: nothing was appended.
            AppendUnknown: it may have been appended.
            Exception: what `body` raises.
        """
        if _block.get() is not None:  # its caller runs it again
            return body()
        until = time.monotonic() + timeout
        while True:
            try:
                with self.atomic():
                    return body()
            except AppendConflict as conflict:
                if type(conflict) is not AppendConflict or time.monotonic() >= until:
                    raise

    @property
    def thread(self) -> StoreThread:
        """The thread on which the store lives, for adapters that run coroutines there."""
        return self._thread


def connect(
    url: str | None = None, *, path: str | os.PathLike[str] | None = None, **options: Any
) -> BlockingStore:
    """Open a store and return it, for code that blocks: on any thread, also beside a running loop.

    Args:
        url: `nats://host:port`. None: `$FOLDLOG_URL`, or the embedded server.
        path: the embedded server's data directory. None: `$FOLDLOG_PATH`, else `./.foldlog`.
        options: the other options of `foldlog.connect`.

    Raises:
        ConfigurationError: an option cannot work, or the server refuses the credentials.
        LogUnavailable: no server answers.
        UnsupportedServer, ServerStartFailed: the server is too old, or did not start.
        InvalidId: the namespace is empty.
    """
    thread = StoreThread(foldlog.connect(url, path=path, **options))

    async def opened(store: Store) -> BlockingStore:
        return BlockingStore(thread)

    try:
        return thread.call(opened)
    except BaseException:
        thread.close()
        raise


def _has_coroutines(value: object) -> bool:
    """Whether an object is foldlog's and has coroutine methods, as facades and sessions have."""
    module = type(value).__module__
    if not module.startswith("foldlog."):
        return False
    members = (getattr(type(value), name, None) for name in dir(type(value)))
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in members
    )
