"""The calls of a framework's agent as steps of a run: their options, and calls side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, Literal, TypedDict, TypeVar

from foldlog.errors import Misuse

T = TypeVar("T")


class StepOptions(TypedDict, total=False):
    """Options of `Run.step`, for the calls of an agent: `{"repeatable": True, "retries": 3}`."""

    repeatable: bool
    retries: int
    pause: float
    timeout: float | None
    on_change: Literal["raise", "again", "keep"]


def checked_options(options: Any, whose: str = "an option is") -> Any:
    """Options of a step. Raises Misuse."""
    known = StepOptions.__annotations__.keys()
    if not isinstance(options, dict) or not options.keys() <= known:
        raise Misuse(f"{whose} {options!r:.200}: options of a step are {', '.join(known)}")
    return options


class SideBySide:
    """Steps that run beside each other, in a framework that cancels the others where one raises."""

    def __init__(self) -> None:
        self._flying: set[asyncio.Future[None]] = set()

    async def done(self, step: Awaitable[T]) -> T:
        """Await a step. Where it raises, the steps beside it end first: else they are cancelled,
        and nobody knows their outcome.
        """
        ended = asyncio.get_running_loop().create_future()
        self._flying.add(ended)
        try:
            return await step
        except Exception:
            self._flying.discard(ended)
            while self._flying:
                await asyncio.wait(self._flying)
            raise
        finally:
            self._flying.discard(ended)
            ended.set_result(None)


async def all_answers(questions: Iterable[Awaitable[Any]]) -> list[Any]:
    """Ask all questions at once, and return what is said, in order. All that fail are raised."""
    answers = await asyncio.gather(*questions, return_exceptions=True)
    errors = [each for each in answers if isinstance(each, BaseException)]
    if errors:
        raise errors[0] if len(errors) == 1 else BaseExceptionGroup("calls wait", errors)
    return answers
