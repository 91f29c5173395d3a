"""Asking for many things at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def together(asked: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return what all of them return, in order.

    Raises what the first of them raises, when all have ended: none goes on behind the caller's
    back.
    """
    found = await asyncio.gather(*asked, return_exceptions=True)
    for each in found:
        if isinstance(each, BaseException):
            raise each
    return [each for each in found if not isinstance(each, BaseException)]
