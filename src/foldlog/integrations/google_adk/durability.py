"""Agents of ADK as runs: each model call and each tool is a step.

    @foldlog.durable
    async def travel(run: foldlog.Run, prompt: str) -> str:
        runner = InMemoryRunner(agent_in(run, agent))
        events = await runner.run_debug(prompt, quiet=True)
        return events[-1].content.parts[0].text

The contract is `BaseLlm.generate_content_async` and `BaseTool.run_async` of `google-adk`.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator, Callable, Iterator
from itertools import count
from typing import Any, Final

from google.adk.agents import BaseAgent, LlmAgent
from google.adk.events import EventActions
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.tools import BaseTool, FunctionTool, ToolContext
from google.adk.tools.base_toolset import BaseToolset

from foldlog.integrations.calls import AgentSteps, checked_options
from foldlog.runs import Run

_KEY: Final = "foldlog"
"""Where a tool's `custom_metadata` has the options of its step."""

_PREFIX: Final = "adk-"
"""What the ids begin with that ADK gives to calls: it does not show these to the model."""


def agent_in(run: Run, agent: BaseAgent) -> BaseAgent:
    """Return a copy of an agent, whose model calls and tools are steps of a run.

    The agents below it are copied, too. A model call that has ended is never made again. A tool
    whose worker died in it is not called again, unless it says that it may be: `store.waiting()`
    asks whether it happened. A tool says how its step is done in its `custom_metadata`:
    `{"foldlog": {"repeatable": True}}`, with the options of `Run.step`; `{"foldlog": False}`
    makes it no step. Results of tools are recorded as JSON.

    The run begins anew in each execution, and comes to where it was by what is on record: give it
    a session in memory, as `InMemoryRunner` does, or one of `sessions_in(run)`.

    Args:
        run: an open run, of `store.run` or a worker. The copy lasts as long as it.
        agent: it stays as it is. Two agents of one name cannot run side by side.
    """
    return _copied(agent, AgentSteps(run))


def _copied(agent: BaseAgent, steps: AgentSteps) -> BaseAgent:
    below = [_copied(each, steps) for each in agent.sub_agents]
    update: dict[str, Any] = {"sub_agents": below} if below else {}
    if isinstance(agent, LlmAgent):
        update["model"] = _model(steps, agent.name, agent.canonical_model)
        update["tools"] = [_tool(steps, agent.name, each) for each in agent.tools]
    return agent.clone(update=update)


def _model(steps: AgentSteps, agent: str, model: BaseLlm) -> BaseLlm:
    """A copy of the model, whose calls are steps."""

    async def generate(
        request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        async def call() -> list[dict[str, Any]]:
            given = [each async for each in model.generate_content_async(request, stream)]
            number = steps.run.within.rpartition(" ")[2]
            ids = (f"{_PREFIX}{agent}-{number}-{n}" for n in count(1))
            return [_recorded(steps.run, each, ids) for each in given if not each.partial]

        for each in await steps.model(agent, call):
            yield LlmResponse.model_validate(each)

    return _with(model, "generate_content_async", generate)


def _tool(steps: AgentSteps, agent: str, tool: Any) -> Any:
    """A copy of a tool or of a set of tools, whose calls are steps."""
    if isinstance(tool, BaseToolset):
        get_tools = tool.get_tools

        async def found(*args: Any, **kwargs: Any) -> list[Any]:
            return [_tool(steps, agent, each) for each in await get_tools(*args, **kwargs)]

        return _with(tool, "get_tools", found)
    it: BaseTool = tool if isinstance(tool, BaseTool) else FunctionTool(tool)
    options = (it.custom_metadata or {}).get(_KEY, {})
    if options is False:
        return it
    checked_options(options, f"tool {it.name!r:.80} has metadata")

    async def run_async(*, args: dict[str, Any], tool_context: ToolContext) -> Any:
        async def call(tool: str, arguments: Any) -> dict[str, Any]:
            result = await it.run_async(args=arguments, tool_context=tool_context)
            actions = tool_context.actions.model_dump(mode="json", exclude_none=True)
            return {"result": result, "actions": actions}

        what, given = f"{it.name} {tool_context.function_call_id}", {"tool": it.name}
        done = await steps.do(agent, what, call, arguments=args, kind="tool", **given, **options)
        if not isinstance(done, dict) or done.keys() != {"result", "actions"}:
            return done  # as a person has confirmed it
        actions = EventActions.model_validate(done["actions"])
        for name in actions.model_fields_set:
            setattr(tool_context.actions, name, getattr(actions, name))
        return done["result"]

    return _with(it, "run_async", run_async)


def _recorded(run: Run, response: LlmResponse, ids: Iterator[str]) -> dict[str, Any]:
    """A response as JSON, with its cost on record, and ids for its calls that have none."""
    for part in (response.content and response.content.parts) or ():
        if part.function_call and not part.function_call.id:
            part.function_call.id = next(ids)
    if (used := response.usage_metadata) is not None:
        run.usage(
            model=response.model_version or "",
            input_tokens=used.prompt_token_count or 0,
            output_tokens=used.candidates_token_count or 0,
        )
    dumped: dict[str, Any] = response.model_dump(mode="json", exclude_none=True)
    return dumped


def _with(thing: Any, name: str, function: Callable[..., Any]) -> Any:
    """A copy of a thing that has a function for a method: the classes are ADK's or the user's."""
    copied = copy.copy(thing)
    object.__setattr__(copied, name, function)
    return copied
