"""What every public call passes: what only reads refuses writes, telemetry measures, and failures
degrade.

With `on_error="degrade"` (StateStore specification 2.11: "must not throw") a call that fails writes
a line, counts, and returns what an empty store would have. An inner call is part of the outer one.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, Protocol, TypeVar, cast

from foldlog.errors import FoldlogError, ReadOnlyStore
from foldlog.store.failures import failure_event, log_failure, trace_of
from foldlog.store.spool import Spooled

P = ParamSpec("P")
T = TypeVar("T")

SPOOLED: Final = "statestore_save_spooled"
"""The `event` of a save that waits in the spool."""

Measure = Callable[[str, Awaitable[Any]], Awaitable[Any]]
"""Awaits a call, by the method's name, and notes how it ended."""

_is_inside: Final[ContextVar[bool]] = ContextVar("is_inside", default=False)
"""Whether this is part of a public call that is under way."""


def outside() -> Context:
    """The context for a task that runs on when the call that starts it has ended."""
    context = copy_context()
    context.run(_is_inside.set, False)
    return context


class _Method(NamedTuple):
    """A public method. `default` is None where failures are always raised."""

    name: str
    measured_as: str
    default: Callable[[], Any] | None
    writes: bool
    encloses: bool = False
    signature: inspect.Signature | None = None


class Calls:
    """How the calls of one store end. `failures` counts those that degraded, by method.

    Args:
        degrades: failures become defaults.
        reads_only: nothing may be written.

    Attributes:
        degrades, reads_only: as given.
        measure: is given each call to await, if it is set.
    """

    def __init__(self, *, degrades: bool = False, reads_only: bool = False) -> None:
        self.failures: Counter[str] = Counter()
        self.measure: Measure | None = None
        self.degrades: bool = degrades
        self.reads_only: bool = reads_only

    async def run(
        self,
        call: Coroutine[Any, Any, T],
        method: _Method,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> T:
        """Await a call as this store has it. Cancellation always propagates."""
        if method.writes and self.reads_only:
            call.close()
            raise ReadOnlyStore(method.name)
        if _is_inside.get():
            return await call
        token = _is_inside.set(not method.encloses)
        try:
            if self.measure is None:
                return await self._ended(call, method, args, kwargs or {})
            ended = self._ended(call, method, args, kwargs or {})
            return cast(T, await self.measure(method.measured_as, ended))
        finally:
            _is_inside.reset(token)

    def note(self, method: str, trace_id: str | None, error: FoldlogError) -> None:
        """Count a call that failed without an error to its caller, and write its line."""
        self.failures[method] += 1
        if isinstance(error, Spooled):
            log_failure(SPOOLED, method, trace_id, error.cause, level=logging.WARNING)
        else:
            log_failure(failure_event(method), method, trace_id, error)

    async def _ended(
        self,
        call: Coroutine[Any, Any, T],
        method: _Method,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> T:
        try:
            return await call
        except FoldlogError as error:
            if not self.degrades or method.default is None:
                raise
            trace_id = trace_of(method.signature, args, kwargs) if method.signature else None
            self.note(method.name, trace_id, error)
            return cast(T, method.default())


class HasCalls(Protocol):
    """What has public calls."""

    _calls: Calls


H = TypeVar("H", bound=HasCalls)
_Call = Callable[Concatenate[H, P], Coroutine[Any, Any, T]]


F = TypeVar("F", bound=Callable[..., Any])


def overloaded(method: F) -> F:
    """As `operation`, for a method with overloads."""
    return cast(F, operation()(method))


def nothing() -> None:
    """The default of what returns nothing."""
    return


def operation(
    default: Callable[[], Any] | None = None,
    *,
    writes: bool = False,
    encloses: bool = False,
    name: str | None = None,
    prefix: str = "",
) -> Callable[[_Call[H, P, T]], _Call[H, P, T]]:
    """Make a method a public call of a store: see the module.

    Args:
        default: makes what a degrading store returns where the call fails. None: it raises.
        writes: whether a store that only reads refuses it.
        encloses: whether it runs its caller's code, whose calls are measured, too.
        name: what it is called for callers. None: the method's own name.
        prefix: what its name begins with where calls are measured.
    """

    def decorate(method: _Call[H, P, T]) -> _Call[H, P, T]:
        full = inspect.signature(method)
        signature = full.replace(parameters=list(full.parameters.values())[1:])
        called = name or method.__name__
        about = _Method(called, prefix + called, default, writes, encloses, signature)

        @functools.wraps(method)
        async def call(self: H, *args: P.args, **kwargs: P.kwargs) -> T:
            calls = self._calls
            if calls.degrades or calls.reads_only or calls.measure is not None:
                return await calls.run(method(self, *args, **kwargs), about, args, kwargs)
            return await method(self, *args, **kwargs)

        return cast(_Call[H, P, T], call)  # what `wraps` returns is callable alike

    return decorate
