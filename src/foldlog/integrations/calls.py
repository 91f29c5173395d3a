"""The calls of a framework's agent as steps of a run: their names and options, and side by side."""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypedDict, TypeVar

from foldlog.errors import FoldlogError, Misuse
from foldlog.runs import Run

T = TypeVar("T")

_counts: Final[weakref.WeakKeyDictionary[Run, Counter[str]]] = weakref.WeakKeyDictionary()
"""How many steps of a sort there were in a run."""


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


class AgentSteps:
    """What agents do as steps of a run, which have the same names in every execution.

    Args:
        run: an open run.
        name: what steps are called before the agent's name.
        model: options of the steps that are model calls. They are repeatable, if not said else.
        tools: options of the steps that are tools, by the tool's name. False: it is no step.
        says: whether the run says what models say, live.

    Raises:
        Misuse: an option is none of `Run.step`.
    """

    def __init__(
        self,
        run: Run,
        name: str = "",
        model: StepOptions | None = None,
        tools: Mapping[str, StepOptions | Literal[False]] | None = None,
        says: bool = False,
    ) -> None:
        self.run = run
        self.says: bool = says
        self.stopped: list[Exception] = []
        self._name = f"{name} " if name else ""
        self._model: Any = {"repeatable": True, **checked_options(model or {})}
        self._tools: Mapping[str, Any] = tools or {}
        for tool, given in self._tools.items():
            if given is not False:
                checked_options(given, f"tool {tool!r:.80} has")
        self._beside: defaultdict[str, SideBySide] = defaultdict(SideBySide)

    def check(self) -> None:
        """Raise what has stopped the run in a step: a framework may have the model hear of it."""
        if self.stopped:
            raise self.stopped[0]

    def named(self, agent: str, what: str) -> str:
        """The name of a step."""
        within = self.run.within
        inside = f"{within}/" if within else ""
        return f"{inside}{self._name}{agent}: {what}"

    def options_of(self, tool: str) -> Any:
        """Options of a tool's step; False: it is no step."""
        return self._tools.get(tool, {})

    async def do(
        self, agent: str, what: str, call: Callable[..., Awaitable[Any]], **options: Any
    ) -> Any:
        """Do the next step of its sort. One that raises counts for nothing: it is tried again."""
        counts = _counts.setdefault(self.run, Counter())
        sort = self.named(agent, what)
        number = counts[sort] + 1
        step = f"{sort} {number}" if number > 1 or what == "model" else sort
        try:
            result = await self._beside[self.run.within].done(self.run.step(step, call, **options))
        except FoldlogError as error:
            self.stopped.append(error)
            raise
        counts[sort] = number
        return result

    async def model(
        self,
        agent: str,
        ask: Callable[[], Awaitable[Any]],
        prompt: Any = None,
        what: str = "model",
    ) -> Any:
        """Ask the model in a step. `prompt` is on record, and has to be the same in a rerun."""

        async def call(prompt: Any = None) -> Any:
            return await ask()

        given = {} if prompt is None else {"prompt": prompt}
        return await self.do(agent, what, call, kind="model", **given, **self._model)

    async def tool(
        self,
        agent: str,
        tool: str,
        id: str,
        arguments: Any,
        call: Callable[[], Awaitable[Any]],
        failed: Callable[[Exception], Any],
    ) -> Any:
        """Call a tool in a step. If it raises for the last time, the result is `failed(error)`: the
        model hears of it, in every execution.
        """
        options = self.options_of(tool)
        retries = options.get("retries", 0)

        async def do(tool: str, arguments: Any) -> Any:
            nonlocal retries
            try:
                return await call()
            except FoldlogError:
                raise
            except Exception as error:
                if retries > 0:
                    retries -= 1
                    raise
                return failed(error)

        given = {"kind": "tool", "tool": tool, "arguments": arguments}
        return await self.do(agent, f"{tool} {id}", do, **given, **options)

    async def approved(self, agent: str, tool: str, id: Any, arguments: Any) -> Any:
        """Return what a person says of a call that waits."""
        question = {"tool": tool, "arguments": arguments}
        return await self.run.ask(self.named(agent, f"approve {tool} {id}"), question)


async def heard(
    step: Callable[[Callable[[Any], None]], Awaitable[Any]],
) -> AsyncGenerator[tuple[Any, bool], None]:
    """Yield what a step hears while it is done, and at last its result, and True.

    The last thing ends the caller's interest: it comes when it is on record.
    """
    things: asyncio.Queue[Any] = asyncio.Queue()
    doing = asyncio.ensure_future(step(lambda thing: things.put_nowait((thing, False))))
    doing.add_done_callback(lambda _: things.put_nowait(None))
    try:
        while (thing := await things.get()) is not None:
            yield thing
        yield await doing, True
    finally:
        if not doing.done():
            doing.cancel()
            await asyncio.wait([doing])


async def all_answers(questions: Iterable[Awaitable[Any]]) -> list[Any]:
    """Ask all questions at once, and return what is said, in order. All that fail are raised."""
    answers = await asyncio.gather(*questions, return_exceptions=True)
    errors = [each for each in answers if isinstance(each, BaseException)]
    if errors:
        raise errors[0] if len(errors) == 1 else BaseExceptionGroup("calls wait", errors)
    return answers
