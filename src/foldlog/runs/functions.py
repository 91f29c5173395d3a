"""Durable functions: coroutine functions that take a run, which workers call by name."""

from __future__ import annotations

import functools
import hashlib
import inspect
import typing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, ParamSpec, TypeVar, overload

from foldlog import codec
from foldlog.errors import Misuse, PayloadError
from foldlog.subjects import checked_id
from foldlog.values import TypeCodec, as_plain, returned_type, type_codec
from foldlog_projections.runs.queues import HOME

P = ParamSpec("P")
T = TypeVar("T")

ATTEMPTS: Final = 3
"""How often a run is given to a worker, unless its function says otherwise."""

_POSITIONAL: Final = "*"
"""The name under which arguments are recorded that have none."""


class Durable(Generic[P, T]):
    """A function that workers do: made by `foldlog.durable`. Calling it calls the function.

    Attributes:
        function: the coroutine function; its first argument is the run.
        name: by which it is started, and found by workers.
        version: which steps it makes: a run goes on with the version that it began with.
        queue: where its runs wait, unless `start` says otherwise.
        attempts: how often the function is called before its run is given up, where it raises or
            its worker dies. The count begins anew with each step that is done.
    """

    def __init__(
        self,
        function: Callable[..., Awaitable[T]],
        name: str,
        version: str,
        queue: str,
        attempts: int,
    ) -> None:
        if not inspect.iscoroutinefunction(function):
            raise Misuse(f"a durable function is an `async def` that takes a run, not {function!r}")
        if not list(inspect.signature(function).parameters):
            raise Misuse(f"{function.__qualname__} takes no run: it is the first argument")
        if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
            raise Misuse(f"attempts is 1 or more, not {attempts!r:.80}")
        functools.update_wrapper(self, function)
        self.function = function
        self.name: str = checked_id(name, "name")
        self.version: str = checked_id(version, "version")
        self.queue: str = checked_id(queue, "queue")
        self.attempts: int = attempts

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[T]:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<durable {self.name} {self.version}>"

    def named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Internal: the arguments by the names of the parameters. Misuse: they do not fit."""
        bound = self._bound(args, kwargs).arguments
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        nameless = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
        if any(each.kind in nameless and each.name in bound for each in parameters):
            return {_POSITIONAL: list(args), **kwargs}
        found = {each.name: bound[each.name] for each in parameters if each.name in bound}
        for each in parameters:
            if each.kind is inspect.Parameter.VAR_KEYWORD:
                found |= found.pop(each.name, {})
        return found

    def loaded(self, data: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Internal: arguments as the function takes them, from those that were recorded.

        Raises:
            PayloadError, Misuse: they are not what the function takes.
        """
        kwargs = dict(data)
        bound = self._bound(kwargs.pop(_POSITIONAL, []), kwargs)
        for name, value in list(bound.arguments.items())[1:]:
            declared = self._codecs.get(name)
            if declared is not None:
                try:
                    bound.arguments[name] = declared.load(value)
                except ValueError as error:
                    raise PayloadError(name, f"it is no {declared.name:.80}: {error}") from error
        return bound.args[1:], bound.kwargs

    @functools.cached_property
    def declared(self) -> TypeCodec[Any] | None:
        """Internal: how what it returns is written and read."""
        return type_codec(returned_type(self.function))

    @functools.cached_property
    def _codecs(self) -> dict[str, TypeCodec[Any] | None]:
        hints = typing.get_type_hints(self.function)
        various = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        parameters = inspect.signature(self.function).parameters.values()
        return {
            each.name: type_codec(hints[each.name])
            for each in list(parameters)[1:]
            if each.name in hints and each.kind not in various
        }

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> inspect.BoundArguments:
        try:
            return inspect.signature(self.function).bind(None, *args, **kwargs)
        except TypeError as error:
            raise Misuse(f"{self.name} was started with other arguments: {error}") from None


@overload
def durable(function: Callable[..., Awaitable[T]], /) -> Durable[..., T]: ...


@overload
def durable(
    *, name: str | None = ..., version: str = ..., queue: str = ..., attempts: int = ...
) -> Callable[[Callable[..., Awaitable[T]]], Durable[..., T]]: ...


def durable(
    function: Callable[..., Awaitable[Any]] | None = None,
    /,
    *,
    name: str | None = None,
    version: str = "1",
    queue: str = HOME,
    attempts: int = ATTEMPTS,
) -> Any:
    """Have workers do a function: decorate a coroutine function whose first argument is a run.

        @foldlog.durable
        async def research(run: foldlog.Run, city: str) -> list[str]:
            return await run.step("search", search, city)

        handle = await store.start(research, "Oslo", id="oslo")

    Args:
        function: the function, where the decorator takes nothing else.
        name: by which it is started, and found by workers. None: the function's own name.
        version: change it with the steps that the function makes. A run goes on with the version
            that it began with, where a worker has it.
        queue: where its runs wait, unless `start` says otherwise.
        attempts: how often the function is called before its run has failed, where it raises or
            its worker dies. The count begins anew with each step that is done.

    Returns:
        The function as a `Durable`.

    Raises:
        Misuse: it is no coroutine function, or takes no run. InvalidId: a name is empty.
    """

    def decorate(given: Callable[..., Awaitable[Any]]) -> Durable[..., Any]:
        own = getattr(given, "__name__", "")
        return Durable(given, name or own, version, queue, attempts)

    return decorate if function is None else decorate(function)


def name_of(function: Durable[..., Any] | str) -> str:
    """The name of a durable function. Raises Misuse: it is none. InvalidId: the name is empty."""
    if isinstance(function, Durable):
        return function.name
    if not isinstance(function, str):
        raise Misuse(
            f"{function!r:.80} is no durable function: decorate it, @foldlog.durable, or give the "
            "name of one"
        )
    return checked_id(function, "function")


class Given(NamedTuple):
    """Arguments as plain data, and the digest of their encoding."""

    plain: dict[str, Any]
    digest: str


def given_to(
    function: Durable[..., Any] | str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Given:
    """Return what a durable function is to be called with. Raises PayloadError and Misuse."""
    if isinstance(function, Durable):
        named = function.named(args, kwargs)
    else:
        named = {_POSITIONAL: list(args), **kwargs} if args else dict(kwargs)
    plain = as_plain(named, "arguments")
    return Given(plain, hashlib.sha256(codec.encode(plain, "arguments")).hexdigest())
