"""`on_error="degrade"` for an adapter's methods: also where the store is not reached."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from foldlog.store.degrade import Degrade

P = ParamSpec("P")
T = TypeVar("T")


class MayDegrade(Protocol):
    """What has methods that may degrade. Where `_degrade` is None, they raise."""

    _degrade: Degrade | None


S = TypeVar("S", bound=MayDegrade)


class OrElse:
    """Decorates a method: `default()` where a degrading object would raise a FoldlogError."""

    def __init__(self, default: Callable[[], Any]) -> None:
        self._default = default

    def __call__(
        self, method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]]
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        @functools.wraps(method)
        async def guarded(owner: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            if owner._degrade is None:
                return await method(owner, *args, **kwargs)
            bound: Callable[P, Coroutine[Any, Any, T]] = method.__get__(owner)
            return await owner._degrade.guard(bound, self._default)(*args, **kwargs)

        return guarded


def _nothing() -> None:
    return


or_nothing = OrElse(_nothing)
or_empty = OrElse(list)
or_false = OrElse(bool)
