"""Decorators for an adapter's methods, by which none raises where the adapter degrades."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from foldlog.errors import FoldlogError
from foldlog.integrations.penguiflow.failures import Failures, Report
from foldlog.integrations.penguiflow.line import Call, Reach
from foldlog.integrations.penguiflow.plain import callers_code
from foldlog.store.failures import trace_of

P = ParamSpec("P")
T = TypeVar("T")


class Adapter(Protocol):
    """What has methods that may degrade."""

    _failures: Failures
    _reach: Reach


S = TypeVar("S", bound=Adapter)


class OrElse:
    """Decorates a method: `default()` where a degrading adapter would raise a FoldlogError."""

    def __init__(self, default: Callable[[], Any]) -> None:
        self._default = default

    def __call__(
        self, method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]]
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        reporting = _Reporting(method)

        @functools.wraps(method)
        async def guarded(owner: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return await method(owner, *args, **kwargs)
            except FoldlogError as error:
                if not reporting(owner, args, kwargs).swallows(error):
                    raise
            default: T = self._default()
            return default

        return guarded


def saving(
    method: Callable[Concatenate[S, P], Call[None]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, None]]:
    """Decorate a method that says what to save, given as it is at the call, to have it saved.

    The method does no I/O. Whatever the caller's objects make it raise is a PayloadError.
    """
    return _saving(method, lambda: False)


def flushing(
    method: Callable[Concatenate[S, P], Call[None]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, None]]:
    """As `saving`, of a method by which a planner saves a run's events, one after the other.

    It does so in a task that nobody awaits, and that is cancelled where its event loop ends, after
    a request to a test client for instance. There a save only begins: events that all begin at
    once are there for the next read, and lose nothing by that cancellation.
    """
    return _saving(method, _is_task_of_a_planner)


def _saving(
    method: Callable[Concatenate[S, P], Call[None]], is_unawaited: Callable[[], bool]
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, None]]:
    reporting = _Reporting(method)

    @functools.wraps(method)
    async def saved(owner: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        report = reporting(owner, args, kwargs)
        try:
            with callers_code(method.__name__):
                call = method(owner, *args, **kwargs)
            if is_unawaited():
                owner._reach.begin(call, report)
            else:
                await owner._reach.write(call, report)
        except FoldlogError as error:
            if not report.swallows(error):
                raise

    return saved


def at_once(
    method: Callable[Concatenate[S, P], Call[None]],
) -> Callable[Concatenate[S, P], Awaitable[None]]:
    """Decorate a method that says what is to be done before the caller goes on."""
    reporting = _Reporting(method)

    @functools.wraps(method)
    def done(owner: S, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[None]:
        report = reporting(owner, args, kwargs)
        return owner._reach.at_once(method(owner, *args, **kwargs), report)

    return done


class _Reporting:
    """Makes the reports of one method's calls. A call that does not fit it is a TypeError."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._name = method.__name__
        signature = inspect.signature(method)
        _, *parameters = signature.parameters.values()  # without `self`
        self._signature = signature.replace(parameters=parameters)

    def __call__(self, owner: Adapter, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Report:
        return owner._failures.of(self._name, trace_of(self._signature, args, kwargs))


def _is_task_of_a_planner() -> bool:
    """Whether the task that runs is one of PenguiFlow's planner: its coroutine is defined there."""
    task = asyncio.current_task()
    frame = getattr(None if task is None else task.get_coro(), "cr_frame", None)
    return frame is not None and str(frame.f_globals["__name__"]).startswith("penguiflow.planner.")


def _nothing() -> None:
    return


or_nothing: OrElse = OrElse(_nothing)
or_empty: OrElse = OrElse(list)
or_false: OrElse = OrElse(bool)
