"""`FoldlogRunner`: an agent of OpenAI Agents whose calls are the steps of a run."""

from __future__ import annotations

import copy
import dataclasses
import json
import weakref
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final, Literal

from agents.tool import (
    ToolOutputFileContent,
    ToolOutputImage,
    ToolOutputText,
    invoke_function_tool,
)
from pydantic_core import to_jsonable_python

from agents import (
    Agent,
    FunctionTool,
    GuardrailFunctionOutput,
    Handoff,
    RunConfig,
    Runner,
    RunResult,
    ToolApprovalItem,
)
from foldlog.errors import Misuse
from foldlog.integrations.calls import AgentSteps, StepOptions, all_answers
from foldlog.integrations.openai_agents.models import Asked, DurableModel
from foldlog.runs import Run

_LOCAL: Final = ("computer", "editor", "executor", "on_invoke_tool")
"""What a tool has that acts in this process."""

_STRUCTURED: Final = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)

_call: Final[ContextVar[str]] = ContextVar("foldlog_call", default="")
"""The id of the call by which an agent is another agent's tool."""


class FoldlogRunner:
    """Runs an agent so that what it does are steps: `await FoldlogRunner(run).run(agent, input)`.

        @foldlog.durable
        async def support(run: foldlog.Run, prompt: str) -> str:
            result = await FoldlogRunner(run).run(agent, prompt)
            return result.final_output

    A model call that has ended is never made again. A tool whose worker died in it is not called
    again, unless `tools` says that it may be: `store.waiting()` asks whether it happened. A tool
    that needs approval waits there, too, and takes no worker meanwhile: `store.answer` gives True,
    False or the reason why not. Hand-offs and guardrails are steps; hosted tools are part of the
    model call.

    Steps are named after the agent, the tool and the call's id. An agent that runs twice side by
    side in one run needs two runners, each of another `name`. It lasts as long as the run is open.

    Args:
        run: an open run, of `store.run` or a worker.
        name: what steps are called before the agent's name: "to Oslo" makes "to Oslo travel: ...".
        say: whether the run says what the model says, live: `handle.stream()` yields the events of
            the Responses API in JSON. The model is asked for a stream then.
        asks: whether approvals are asked for in `store.waiting()`. False: the result has
            `interruptions`.
        model: options of the steps that are model calls. They are repeatable, if not said else.
        tools: options of the steps that are tools, by the tool's name. False: it is no step.
        run_config: the `RunConfig` of each `run`.

    Raises:
        Misuse: an option is none of `Run.step`.
    """

    def __init__(
        self,
        run: Run,
        *,
        name: str = "",
        say: bool = False,
        asks: bool = True,
        model: StepOptions | None = None,
        tools: Mapping[str, StepOptions | Literal[False]] | None = None,
        run_config: RunConfig | None = None,
    ) -> None:
        self._run = run
        self._steps = AgentSteps(run, name, model, tools)
        self._says = say
        self._asks = asks
        self._config = run_config or RunConfig()
        self._agents: dict[int, tuple[Any, Agent[Any]]] = {}
        self._prompt: Any = None

    async def run(self, agent: Agent[Any], input: Any, **options: Any) -> RunResult:
        """Run an agent to its end, as `Runner.run` does.

        Args:
            agent: the agent. It stays as it is: a copy of it runs, and of those it hands off to.
            input: what it is asked; the same in every execution, or the first model call raises
                StepChanged.
            options: of `Runner.run`, as `context=` and `max_turns=`, without `session=`.

        Raises:
            RunPaused: an approval waits. StepUnknown: nobody knows whether a tool had its effect.
            Misuse: a tool cannot be a step, as those of a local shell or computer; or there is a
                `session`, or a `run_config`, which `FoldlogRunner` takes.
            FoldlogError: what else `Run.step` and `Run.ask` raise.
            agents.AgentsException: what `Runner.run` raises.
        """
        if options.get("session") is not None or "run_config" in options:
            raise Misuse(
                "FoldlogRunner.run takes no session, whose items would be added in each execution, "
                "and no run_config: give that to FoldlogRunner(run, run_config=...)"
            )
        config = dataclasses.replace(
            self._config,
            model=None,
            input_guardrails=self._guardrails(agent.name, self._config.input_guardrails),
            output_guardrails=self._guardrails(agent.name, self._config.output_guardrails),
        )
        durable, self._prompt = self.agent(agent), input
        self._steps.stopped.clear()
        while True:
            try:
                result = await Runner.run(durable, input, run_config=config, **options)
            except Exception:
                self._steps.check()  # the SDK may have made a UserError of it
                raise
            if not (result.interruptions and self._asks):
                return result
            answers = await all_answers(map(self._approval, result.interruptions))
            input = result.to_state()
            for item, answer in zip(result.interruptions, answers, strict=True):
                if answer is True:
                    input.approve(item)
                else:
                    input.reject(item, rejection_message=None if answer is False else str(answer))

    def agent(self, agent: Agent[Any]) -> Agent[Any]:
        """Return an agent's durable copy: another agent's tool by `as_tool`, or to be streamed.

        Args:
            agent: the agent, or a copy that this has returned.

        Raises:
            Misuse: a tool cannot be a step.
        """
        if id(agent) in self._agents:
            return self._agents[id(agent)][1]
        model = DurableModel(
            self._config.model or agent.model,
            self._config.model_provider,
            lambda do: self._model_call(agent.name, do),
            self._run.say if self._says else None,
        )
        durable = agent.clone(
            model=model,
            tools=[self._tool(agent.name, each) for each in agent.tools],
            input_guardrails=self._guardrails(agent.name, agent.input_guardrails),
            output_guardrails=self._guardrails(agent.name, agent.output_guardrails),
        )
        durable.model_settings = agent.model_settings  # which depend on the model's name
        self._agents[id(agent)] = self._agents[id(durable)] = (agent, durable)
        durable.handoffs = [self._handoff(agent.name, each) for each in agent.handoffs]

        async def mcp_tools(context: Any) -> list[Any]:
            return [self._tool(agent.name, each) for each in await agent.get_mcp_tools(context)]

        durable.get_mcp_tools = mcp_tools
        return durable

    # --- the calls --------------------------------------------------------------------------------

    def _called(self, agent: str) -> str:
        """What the steps of an agent are called, which may be another agent's tool."""
        call = _call.get()
        return f"{agent} {call}" if call else agent

    async def _step(
        self, agent: str, what: str, do: Callable[..., Awaitable[Any]], **options: Any
    ) -> Any:
        return await self._steps.do(self._called(agent), what, do, **options)

    async def _model_call(self, agent: str, do: Callable[[], Awaitable[Asked]]) -> Any:
        async def call() -> Any:
            asked = await do()
            self._run.usage(
                model=asked.model,
                input_tokens=asked.input_tokens,
                output_tokens=asked.output_tokens,
            )
            return asked.said

        said = await self._steps.model(self._called(agent), call, to_jsonable_python(self._prompt))
        self._prompt = None  # which the first call has on record
        return said

    def _tool(self, agent: str, tool: Any) -> Any:
        """A tool whose calls are steps."""
        if not isinstance(tool, FunctionTool):
            if any(getattr(tool, each, None) is not None for each in _LOCAL):
                raise Misuse(
                    f"tool {tool.name!r:.80} acts in this process and is no FunctionTool: its "
                    "calls cannot be steps. Make a function_tool of it"
                )
            return tool
        options = self._steps.options_of(tool.name)
        if options is False:
            return tool
        is_agent = id(tool._agent_instance) in self._agents

        async def invoke(context: Any, arguments: str) -> Any:
            async def do(**recorded: Any) -> Any:
                output = await call()
                has_schema = tool.output_json_schema is not None
                return to_jsonable_python(output) if has_schema else _recordable(output)

            async def call() -> Any:
                return await invoke_function_tool(
                    function_tool=tool, context=context, arguments=arguments
                )

            id = context.tool_call_id
            if not is_agent:
                given = {"kind": "tool", "tool": tool.name, "arguments": _read(arguments)}
                return await self._step(agent, f"{tool.name} {id}", do, **given, **options)
            token = _call.set(id)
            try:
                output = await call()  # its calls are steps
            finally:
                _call.reset(token)
            self._steps.check()  # the SDK would have the model hear of it
            return output

        durable = copy.copy(tool)
        durable.on_invoke_tool = invoke
        durable.timeout_seconds = None  # it counts within the step
        return durable

    def _handoff(self, agent: str, given: Any) -> Any:
        """A hand-off to a durable agent; what is called on it is a step."""
        if isinstance(given, Agent):
            return self.agent(given)
        to = given._agent_ref and given._agent_ref()
        durable: Handoff[Any, Any] = copy.copy(given)

        async def invoke(context: Any, said: str) -> Any:
            async def do(arguments: Any) -> str:
                return str((await given.on_invoke_handoff(context, said)).name)

            if to is None:  # made by hand: which agent it is, only the call says
                return self.agent(await given.on_invoke_handoff(context, said))
            await self._step(agent, given.tool_name, do, arguments=_read(said), kind="tool")
            return self.agent(to)

        durable.on_invoke_handoff = invoke
        if to is not None:
            durable._agent_ref = weakref.ref(self.agent(to))
        return durable

    def _guardrails(self, agent: str, guardrails: list[Any] | None) -> list[Any]:
        """Guardrails whose functions are steps."""

        def durable(guardrail: Any) -> Any:
            async def check(context: Any, checked: Agent[Any], value: Any) -> Any:
                async def do() -> dict[str, Any]:
                    found = guardrail.guardrail_function(context, checked, value)
                    output = await found if isinstance(found, Awaitable) else found
                    info = to_jsonable_python(output.output_info)
                    return {"tripped": output.tripwire_triggered, "info": info}

                what = f"guardrail {guardrail.get_name()}"
                said = await self._step(agent, what, do, repeatable=True)
                return GuardrailFunctionOutput(said["info"], said["tripped"])

            return dataclasses.replace(
                guardrail, guardrail_function=check, name=guardrail.get_name()
            )

        return [durable(each) for each in guardrails or []]

    async def _approval(self, item: ToolApprovalItem) -> Any:
        """What a person says of a call that waits."""
        raw, given = item.raw_item, _read(item.arguments or "")
        id = raw.get("call_id") if isinstance(raw, dict) else getattr(raw, "call_id", "")
        return await self._steps.approved(item.agent.name, str(item.name), id, given)


def _read(arguments: str) -> Any:
    """Arguments as data; as they are, if the model made no JSON of them."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _recordable(output: Any) -> Any:
    """A tool's output as it can be recorded, and the model hears the same of it."""
    if isinstance(output, _STRUCTURED):
        return output.model_dump(mode="json", exclude_none=True)
    if isinstance(output, list | tuple) and any(isinstance(each, _STRUCTURED) for each in output):
        return [_recordable(each) for each in output]
    try:
        plain = json.loads(json.dumps(output))
    except (TypeError, ValueError):
        return str(output)
    return plain if plain == output else str(output)
