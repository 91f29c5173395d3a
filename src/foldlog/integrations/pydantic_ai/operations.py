"""What an agent of Pydantic AI does in a run, as steps of that run."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, Final

from pydantic_ai.durable_exec import (
    DurableOperationId,
    EventStreamHandlerId,
    ExternalEventError,
    ExternalEventWaiter,
    JournalCallableOperationBackend,
    ModelCompactMessagesId,
    ModelRequestId,
    ToolsetCallToolId,
    ToolsetValidateToolArgumentsId,
    record_durable_unit,
)
from pydantic_ai.exceptions import ModelAPIError

from foldlog.errors import PayloadError
from foldlog.integrations.calls import SideBySide, StepOptions
from foldlog.runs import QuestionExpired, Run, RunHandedOn, RunPaused, Step

_CONTROL: Final = "pydantic_ai"
"""The key of a tool's outcome that is more than a value: a retry, a question, files."""

_FILES: Final = "content_file_digests"
"""Where Pydantic AI says which parts of a value are files."""


class Unrecordable(PayloadError):
    """What a step gave has no form in JSON: it is done, and nobody can say with which result."""


class Place:
    """One run of an agent in a run: it names the steps, the same in every execution."""

    def __init__(self, run: Run, label: str, known: Sequence[Step]) -> None:
        self.run = run
        self.label = label
        mine = [
            each
            for each in known
            if each.step.startswith(f"{label}: ") and each.parent == run.within
        ]
        self._failed = {each.step: each for each in mine if each.phase == "failed"}
        self._models = sum(each.kind == "model" for each in mine)
        self._counts = Counter[str]()
        self.beside: SideBySide = SideBySide()

    def named(self, what: str) -> str:
        """The name of the next step of its sort."""
        self._counts[what] += 1
        number = self._counts[what]
        return f"{self.label}: {what}{f' {number}' if number > 1 or what == 'model' else ''}"

    def survived(self, step: str) -> Step | None:
        """The step on record, if it failed and the agent went on all the same: asked a model again.

        Another attempt at it might succeed, and the agent would go another way than before.
        """
        return self._failed.get(step) if self._counts["model"] < self._models else None


place_now: Final[ContextVar[Place]] = ContextVar("foldlog_place")
"""The run of an agent in which the caller is."""


class Steps(JournalCallableOperationBackend[StepOptions]):
    """Does what Pydantic AI calls a durable operation as a step of a run."""

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: StepOptions,
    ) -> object:
        place = place_now.get()
        is_model = isinstance(operation_id, ModelRequestId)
        is_tool = isinstance(operation_id, ToolsetCallToolId)
        what, given = _described(operation_id, name, cache_key)
        step = place.named(what)
        if (failed := place.survived(step)) is not None:
            record_durable_unit(executed=False)
            message = f"{failed.error}: {failed.message}"
            if isinstance(operation_id, ModelRequestId):
                raise ModelAPIError(operation_id.model_name, message)
            raise RuntimeError(message)
        is_done_here = False
        lost: list[Unrecordable] = []

        async def do(tool: str = "", arguments: Any = None, prompt: Any = None) -> Any:
            nonlocal is_done_here
            is_done_here = True
            try:
                payload: Any = await body()
            except Unrecordable as error:
                lost.append(error)
                return error  # which the log cannot hold: the step's outcome is unknown
            if isinstance(operation_id, ModelRequestId | ModelCompactMessagesId):
                used = payload["usage"]
                place.run.usage(
                    model=payload.get("model_name") or "",
                    input_tokens=used.get("input_tokens", 0),
                    output_tokens=used.get("output_tokens", 0),
                    cost_usd=float(used.get("cost") or 0.0),
                )
            return _as_result(payload) if is_tool else payload

        # All others may be done twice: the contract asks it of them.
        options = config if is_tool else {"repeatable": True, **config}
        kind = "model" if is_model else "tool" if is_tool else "step"
        step_done = place.run.step(step, do, kind=kind, **given, **options)
        try:
            found: Any = await place.beside.done(step_done)
        except PayloadError:
            if lost:
                raise lost[0] from None
            raise
        record_durable_unit(executed=is_done_here)
        return _as_payload(found) if is_tool else found


def _described(
    operation_id: DurableOperationId, name: str, cache_key: tuple[Any, ...]
) -> tuple[str, dict[str, Any]]:
    """What an operation is called, and what its step has on record as its arguments."""
    if isinstance(operation_id, ModelRequestId):
        context = cache_key[-1]
        is_first = context.run_step <= 1 and context.prompt is not None
        return "model", {"prompt": context.prompt} if is_first else {}
    if isinstance(operation_id, ToolsetCallToolId | ToolsetValidateToolArgumentsId):
        tool, arguments, context, _ = cache_key
        is_call = isinstance(operation_id, ToolsetCallToolId)
        what = f"{'' if is_call else 'validate '}{tool} {context.tool_call_id}"
        return what, {"tool": tool, "arguments": arguments}
    if isinstance(operation_id, EventStreamHandlerId):
        [event] = cache_key
        return f"{event.event_kind} {getattr(event, 'tool_call_id', None) or ''}".strip(), {}
    return name.partition("__")[2].replace("__", " "), {}


def _as_result(payload: Any) -> Any:
    """A tool's outcome as a person would say it: its value, if it is no more than that."""
    value = payload.get("result")
    is_marked = isinstance(value, dict) and _CONTROL in value
    is_plain = payload["kind"] == "tool_return" and not payload.get(_FILES) and not is_marked
    return value if is_plain else {_CONTROL: payload}


def _as_payload(result: Any) -> Any:
    if isinstance(result, dict) and result.keys() == {_CONTROL}:
        return result[_CONTROL]
    return {"kind": "tool_return", "result": result}


class Waiter(ExternalEventWaiter):
    """Waits for what comes from outside as a question of a run: its id is the token."""

    async def wait(
        self,
        name: str,
        *,
        ask: Callable[[str], Awaitable[Any]],
        timeout: dt.timedelta | None,
    ) -> Any:
        place = place_now.get()
        step = place.named(f"wait for {name}")
        seconds = None if timeout is None else timeout.total_seconds()
        question = {"waits_for": name}
        try:
            try:
                return await place.run.ask(step, question, timeout=seconds, wait=0)
            except RunHandedOn:
                raise
            except RunPaused as paused:
                answer = await place.run.step(f"{step}, asked", ask, paused.id, repeatable=True)
                if answer is not None:
                    await place.run.store.answer(paused.id, answer)
                return await place.run.ask(step, question, timeout=seconds)
        except QuestionExpired as error:
            raise ExternalEventError(str(error)) from error
