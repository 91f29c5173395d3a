"""What every public call passes: the past refuses writes, telemetry measures, failures degrade.

The StateStore specification 2.11 asks of production stores that methods "must not throw". With
`on_error="degrade"` a call that fails writes one structured line, counts, and returns what an empty
store would have. A save that the log cannot take now waits in the spool; its line says so.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, cast

from foldlog.errors import FoldlogError, ReadOnlyStore
from foldlog.store.failures import failure_event, log_failure, trace_of
from foldlog.store.spool import Spooled

P = ParamSpec("P")
T = TypeVar("T")

SPOOLED: Final = "statestore_save_spooled"
"""The `event` of a save that waits in the spool."""

Measure = Callable[[str, Awaitable[Any]], Awaitable[Any]]
"""Awaits a call, by the method's name, and notes how it ended."""


class Calls:
    """How the calls of one store end. `failures` counts those that degraded, by method.

    `measure` is given each call to await, where somebody measures.

    Args:
        degrades: failures become defaults.
        is_past: nothing may be written.
        prefix: what the names of measured methods begin with.
    """

    def __init__(
        self,
        *,
        degrades: bool = False,
        is_past: bool = False,
        prefix: str = "",
        failures: Counter[str] | None = None,
    ) -> None:
        self.degrades = degrades
        self.is_past = is_past
        self.prefix = prefix
        self.failures: Counter[str] = Counter() if failures is None else failures
        self.measure: Measure | None = None

    def of(self, prefix: str) -> Calls:
        """The calls of another object of the same store."""
        return Calls(
            degrades=self.degrades, is_past=self.is_past, prefix=prefix, failures=self.failures
        )

    @property
    def is_plain(self) -> bool:
        """Whether calls need nothing but to be made."""
        return not (self.degrades or self.is_past or self.measure is not None)

    async def run(self, call: Coroutine[Any, Any, T], method: _Method, given: _Given) -> T:
        """Await a call as this store has it. Cancellation always propagates.

        Raises:
            ReadOnlyStore: it writes, and the store is of the past.
        """
        if method.writes and self.is_past:
            call.close()
            raise ReadOnlyStore(method.name)
        if self.degrades and method.default is not None:
            call = self._degraded(call, method, method.default, given)
        if self.measure is None:
            return await call
        found: T = await self.measure(self.prefix + method.name, call)
        return found

    @asynccontextmanager
    async def block(self, block: AbstractAsyncContextManager[None]) -> AsyncIterator[None]:
        """Enter a block whose end is the call `atomic`. What is raised inside it propagates."""
        await block.__aenter__()
        try:
            yield
        except BaseException as error:
            if not await block.__aexit__(type(error), error, error.__traceback__):
                raise
        else:
            await self.run(_end(block), _ATOMIC, ((), {}))

    async def _degraded(
        self,
        call: Coroutine[Any, Any, T],
        method: _Method,
        default: Callable[[], Any],
        given: _Given,
    ) -> T:
        try:
            return await call
        except FoldlogError as error:
            trace_id = trace_of(method.signature, *given) if method.signature else None
            self.note(method.name, trace_id, error)
            found: T = default()
            return found

    def note(self, method: str, trace_id: str | None, error: FoldlogError) -> None:
        """Count a call that failed without an error to its caller, and write its line."""
        self.failures[method] += 1
        if isinstance(error, Spooled):
            log_failure(SPOOLED, method, trace_id, error.cause, level=logging.WARNING)
        else:
            log_failure(failure_event(method), method, trace_id, error)


class HasCalls(Protocol):
    """What has public calls."""

    calls: Calls


H = TypeVar("H", bound=HasCalls)
_Call = Callable[Concatenate[H, P], Coroutine[Any, Any, T]]
_Given = tuple[tuple[Any, ...], dict[str, Any]]


class _Method:
    """What is known of a public method. `default` is None where failures are always raised."""

    def __init__(
        self,
        name: str,
        signature: inspect.Signature | None,
        default: Callable[[], Any] | None,
        writes: bool,
    ) -> None:
        self.name = name
        self.signature = signature
        self.default = default
        self.writes = writes


def nothing() -> None:
    """The default of what returns nothing."""
    return


def operation(
    default: Callable[[], Any] | None = None, *, writes: bool = False, name: str | None = None
) -> Callable[[_Call[H, P, T]], _Call[H, P, T]]:
    """Make a method a public call of a store: see the module.

    Args:
        default: makes what a degrading store returns where the call fails. None: it raises.
        writes: whether a store of the past refuses it.
        name: what it is called for callers. None: the method's own name.
    """

    def decorate(method: _Call[H, P, T]) -> _Call[H, P, T]:
        full = inspect.signature(method)
        signature = full.replace(parameters=list(full.parameters.values())[1:])
        about = _Method(name or method.__name__, signature, default, writes)

        @functools.wraps(method)
        async def call(self: H, *args: P.args, **kwargs: P.kwargs) -> T:
            calls = self.calls
            if calls.is_plain:
                return await method(self, *args, **kwargs)
            return await calls.run(method(self, *args, **kwargs), about, (args, kwargs))

        return cast(_Call[H, P, T], call)  # what `wraps` returns is callable alike

    return decorate


async def _end(block: AbstractAsyncContextManager[None]) -> None:
    await block.__aexit__(None, None, None)


_ATOMIC: Final = _Method("atomic", None, nothing, True)
