"""A process that dies between two steps of a save."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest


class Killed(BaseException):
    """The process ends here."""


@contextmanager
def dying_at(store: Any, method: str) -> Iterator[None]:
    """Have whoever calls a method of a store die before it does anything; see that they did."""

    async def die(*args: Any, **options: Any) -> NoReturn:
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, method, die)
        try:
            yield
        except Killed:
            return
    pytest.fail(f"nobody called {method}")
