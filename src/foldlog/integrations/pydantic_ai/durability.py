"""Agents of Pydantic AI as runs: each model call, each tool and each wait is a step.

    @foldlog.durable
    async def support(run: foldlog.Run, prompt: str) -> str:
        result = await agent.run(prompt, capabilities=[FoldlogDurability(run)])
        return result.output

The contract is `pydantic_ai.durable_exec`, 2.68 and later:
https://github.com/pydantic/pydantic-ai/blob/main/pydantic_ai_slim/pydantic_ai/durable_exec/AGENTS.md
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Any, ClassVar, Final
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter, ValidationError
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.agent import EventStreamHandler
from pydantic_ai.capabilities import (
    CapabilityOrdering,
    ModelFallback,
    RequestInput,
    WrapRunHandler,
)
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    DurabilityEngineSpec,
    DurableOperationId,
    RoleBasedOperationConfig,
    conversation_id_from_run_id,
    external_event_scope,
    replay_scope,
)
from pydantic_ai.messages import (
    AgentStreamEvent,
    FinalResultEvent,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    ToolCallPart,
)
from pydantic_ai.models import Model
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT, RunContext
from pydantic_ai.toolsets import ToolsetTool

from foldlog.integrations.calls import StepOptions, all_answers, checked_options
from foldlog.integrations.pydantic_ai.operations import (
    Place,
    Steps,
    Unrecordable,
    Waiter,
    place_now,
)
from foldlog.runs import Run

_KEY: Final = "foldlog"
"""Where a tool's metadata has the options of its step."""

_SAID: Final = (PartStartEvent, PartDeltaEvent, PartEndEvent, FinalResultEvent)
"""The events of a model's response."""

_events: Final[TypeAdapter[Any]] = TypeAdapter(AgentStreamEvent)
_approvals: Final[TypeAdapter[Any]] = TypeAdapter(bool | ToolApproved | ToolDenied)
_numbers: Final[WeakKeyDictionary[Run, Counter[str]]] = WeakKeyDictionary()
"""How many runs of an agent there were in a run, by the agent's name."""


class FoldlogDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes what an agent does the steps of a run: `capabilities=[FoldlogDurability(run)]`.

    A model call that has ended is never made again. A tool whose worker died in it is not called
    again, unless it says that it may be: `store.waiting()` asks whether it happened. A tool that
    needs approval, or is done outside, waits in `store.waiting()`, too, and takes no worker
    meanwhile: `store.answer` gives an approval True, False or the reason why not, and any other
    call its result.

    A tool says how its step is done in its metadata: `metadata={"foldlog": {"repeatable": True}}`,
    with the options of `Run.step`; `{"foldlog": False}` makes it no step. Results are recorded as
    JSON.

    Steps are named after the agent, the tool and the call's id. Agents of one name that run side
    by side in one run each need another `name`. It lasts as long as the agent's run.

    Args:
        run: an open run, of `store.run` or a worker.
        name: what the agent's steps are called. None: the agent's name.
        say: whether the run says what the model says, live: `handle.stream()` yields events as
            Pydantic AI has them in JSON. The model is asked for a stream then.
        asks: whether calls that wait are asked for in `store.waiting()`. False: the agent ends
            with `DeferredToolRequests`.
        model: options of the steps that are model calls.
        tools: options of the steps that are tools, which a tool's own come before.
        operations: options of the steps that capabilities make by `@durable_operation`. These and
            model calls are repeatable, if not said else.
        models: more models, by id, which `agent.run(model=...)` may name.
        event_stream_handler: is given the model's events live, in its step, and each event of a
            tool in one more step.

    Raises:
        Misuse: an option is none of `Run.step`.
    """

    engine_spec: ClassVar[DurabilityEngineSpec] = DurabilityEngineSpec(
        engine_name="foldlog",
        durable_unit_noun="step",
        durable_container_noun="run",
        codec=JSON_CODEC,
        serialization_failure=lambda error: Unrecordable("result", str(error)),
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-in-durable-unit",
            "dynamic": "enter-never",
        },
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        tool_config_key=_KEY,
    )

    def __init__(
        self,
        run: Run,
        *,
        name: str | None = None,
        say: bool = False,
        asks: bool = True,
        model: StepOptions | None = None,
        tools: StepOptions | None = None,
        operations: StepOptions | None = None,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
    ) -> None:
        self._run = run
        self._asks = asks
        self._says = say
        self._handler = event_stream_handler
        self._options = {
            "model": checked_options(model or {}),
            "tool": checked_options(tools or {}),
            "capability": checked_options(operations or {}),
        }
        handler = self._hear if say or event_stream_handler is not None else None
        super().__init__(models=models, event_stream_handler=handler, name=name)

    @property
    def in_durable_context(self) -> bool:
        """Whether the agent's operations are steps: always."""
        return True

    def get_ordering(self) -> CapabilityOrdering:
        """Return where it stands among the agent's capabilities: `RequestInput` asks before it."""
        return CapabilityOrdering(position="innermost", wrapped_by=(ModelFallback, RequestInput))

    def get_default_run_id(self) -> str | None:
        """Return the id of the agent's run: the same in every execution."""
        return f"{self._base()}{self._next_label()}"

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return the id of its conversation, derived from the run's."""
        return str(conversation_id_from_run_id(run_id))

    async def get_run_start_time(self, run_id: str) -> dt.datetime | None:
        """Return when the agent's run first began: `timeout=` counts from there."""
        step = f"{self._label(run_id)}: began"
        began: dt.datetime = await self._run.step(step, _now, repeatable=True)
        return began

    def get_durable_operation_backend(self) -> Steps:
        """Return what does the agent's operations."""

        def options_of(_: DurableOperationId, tool: object | None, name: str) -> Any:
            metadata = tool.tool_def.metadata if isinstance(tool, ToolsetTool) else None
            given = (metadata or {}).get(_KEY, {})
            return (
                False
                if given is False
                else self._options["tool"]
                | checked_options(given, f"tool {name!r:.80} has metadata")
            )

        config = RoleBasedOperationConfig[StepOptions](
            event={}, resolve_tool=options_of, **self._options
        )
        return Steps(agent_name=self.name, config=config)

    async def wrap_run(
        self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Have what the agent does in this run of it be steps. Pydantic AI calls it."""
        place = Place(self._run, self._label(ctx.run_id), await self._run.steps())
        token = place_now.set(place)
        try:
            with replay_scope(), external_event_scope(Waiter()):
                return await super().wrap_run(ctx, handler=handler)
        finally:
            place_now.reset(token)

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask a person for each call that waits, all at once, and return what they say."""
        if not self._asks:
            return None
        place, metadata = place_now.get(), requests.metadata
        asked = [("approve", call) for call in requests.approvals]
        asked += [("result of", call) for call in requests.calls]

        async def ask(step: str, call: ToolCallPart) -> Any:
            question = {"tool": call.tool_name, "arguments": call.args_as_dict()}
            about = metadata.get(call.tool_call_id)
            return await self._run.ask(step, question | ({"about": about} if about else {}))

        answers = await all_answers(
            ask(place.named(f"{what} {call.tool_name} {call.tool_call_id}"), call)
            for what, call in asked
        )
        said = {call.tool_call_id: each for (_, call), each in zip(asked, answers, strict=True)}
        approved = {call.tool_call_id for call in requests.approvals}
        return requests.build_results(
            approvals={id: _approval(each) for id, each in said.items() if id in approved},
            calls={id: each for id, each in said.items() if id not in approved},
        )

    async def _hear(
        self, ctx: RunContext[AgentDepsT], events: AsyncIterable[AgentStreamEvent]
    ) -> None:
        """Say what the model says, and have the user's handler hear it."""

        async def said() -> AsyncIterator[AgentStreamEvent]:
            async for event in events:
                if self._says and isinstance(event, _SAID):
                    await self._run.say(_events.dump_python(event, mode="json"))
                yield event

        if self._handler is not None:
            await self._handler(ctx, said())
            return
        async for _ in said():
            pass

    async def _dispatch_event_stream_event(
        self, ctx: RunContext[AgentDepsT], event: AgentStreamEvent
    ) -> None:
        if self._handler is not None:  # what only the run says, the model's step has said
            await super()._dispatch_event_stream_event(ctx, event)

    def _base(self) -> str:
        return f"{self._run.session_id}/{self._run.name}/"

    def _label(self, run_id: str | None) -> str:
        """What a run of the agent is called: as its id says, if that is from here."""
        id, base = run_id or "", self._base()
        return id.removeprefix(base) if id.startswith(base) else self._next_label()

    def _next_label(self) -> str:
        """What the next run of this agent is called, in the step in which it is run."""
        within = f"{self._run.within}/" if self._run.within else ""
        label = f"{within}{self.name}"
        counts = _numbers.setdefault(self._run, Counter())
        counts[label] += 1
        return label if counts[label] == 1 else f"{label} {counts[label]}"


def _approval(answer: Any) -> Any:
    """What Pydantic AI takes an answer for. One that is no approval denies, and is the reason."""
    try:
        return _approvals.validate_python(answer)
    except ValidationError:
        return ToolDenied(str(answer))


async def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
