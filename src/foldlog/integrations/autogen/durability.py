"""Agents and teams of AutoGen as runs: each model call and each tool is a step.

    @foldlog.durable
    async def travel(run: foldlog.Run, prompt: str) -> str:
        result = await agent_in(run, agent).run(task=prompt)
        return result.messages[-1].content

The contract is `ChatCompletionClient` and `Workbench` of autogen-core.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, Final, Literal, TypeVar, cast

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import ChatAgent
from autogen_agentchat.teams import BaseGroupChat
from autogen_core import SingleThreadedAgentRuntime
from autogen_core.models import ChatCompletionClient, CreateResult, UserMessage
from autogen_core.tools import StaticWorkbench, TextResultContent, ToolResult, Workbench

from foldlog.errors import FoldlogError, Misuse
from foldlog.integrations.calls import AgentSteps, StepOptions, heard
from foldlog.runs import Run

A = TypeVar("A", bound=ChatAgent | BaseGroupChat)

_raised: Final[ContextVar[list[Exception]]] = ContextVar("foldlog_raised")
"""What the tool has raised that is being called: a workbench makes a text of it."""


def agent_in(
    run: Run,
    agent: A,
    *,
    model: StepOptions | None = None,
    tools: Mapping[str, StepOptions | Literal[False]] | None = None,
    say: bool = False,
) -> A:
    """Return a copy of an agent or a team, whose model calls and tools are steps of a run.

    A model call that has ended is never made again. A tool whose worker died in it is not called
    again, unless `tools` says that it may be: `store.waiting()` asks whether it happened. What a
    tool raises is on record, too: the model hears of it, as it does without a run.

    The run begins anew in each execution, and comes to where it was by what is on record. A copy
    has the messages that its agent has now, and what it adds is not the agent's.

    Args:
        run: an open run, of `store.run` or a worker. The copy lasts as long as it.
        agent: an AssistantAgent, or a team that has not run, on the runtime that it makes itself.
            It stays as it is. Of a team, AssistantAgents and teams are copied; other agents take
            part as they are. Two agents of one name cannot run side by side.
        model: options of the steps that are model calls. They are repeatable, if not said else.
        tools: options of the steps that are tools, by the tool's name. False: it is no step.
        say: whether the run says what the model says, live: `handle.stream()` yields its text
            in pieces as they come, and later. The model is asked for a stream then.

    Raises:
        Misuse: an option is none of `Run.step`; or it is another agent, or a team that has run, or
            one with a runtime of yours.
    """
    if not isinstance(agent, AssistantAgent | BaseGroupChat):
        raise Misuse(
            f"agent_in takes an AssistantAgent or a team, and no {type(agent).__name__}: have it "
            "ask its model by model_in(run, client, name)"
        )
    return cast("A", _copied(agent, AgentSteps(run, model=model, tools=tools, says=say)))


def model_in(
    run: Run,
    client: ChatCompletionClient,
    name: str,
    *,
    model: StepOptions | None = None,
    say: bool = False,
) -> ChatCompletionClient:
    """Return a model client whose calls are steps of a run, for an agent of another class.

    Args:
        run: an open run, of `store.run` or a worker. The client lasts as long as it.
        client: what is asked.
        name: what the steps are called: "judge" makes "judge: model 1".
        model: options of the steps. They are repeatable, if not said else.
        say: as for `agent_in`.

    Raises:
        Misuse: an option is none of `Run.step`.
    """
    steps = AgentSteps(run, model=model, says=say)
    return cast("ChatCompletionClient", _model(steps, name, client))


class _With:
    """An object some of whose methods are others."""

    def __init__(self, of: Any, **methods: Callable[..., Any]) -> None:
        self._of = of
        vars(self).update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


def _copied(it: Any, steps: AgentSteps) -> Any:
    copied = copy.copy(it)
    if isinstance(it, BaseGroupChat):
        if it._initialized or not it._embedded_runtime:
            raise Misuse(
                f"team {it.name!r:.80} has run, or has a runtime of yours, and each execution "
                "begins anew: give agent_in a new team without `runtime`"
            )
        copied._participants = [_copied(each, steps) for each in it._participants]
        copied._runtime = SingleThreadedAgentRuntime(ignore_unhandled_exceptions=False)
        copied._output_message_queue = asyncio.Queue()
        copied._termination_condition = copy.deepcopy(it._termination_condition)
        if client := getattr(it, "_model_client", None):
            copied._model_client = _model(steps, it.name, client)
        copied.run_stream = _stopping(copied.run_stream, steps)
        return copied
    if not isinstance(it, AssistantAgent):
        return _With(it, on_messages_stream=_stopping(it.on_messages_stream, steps))
    flying: set[asyncio.Future[Any]] = set()
    copied._model_client = _model(steps, it.name, it._model_client)
    copied._workbench = [_workbench(steps, it.name, each, flying) for each in it._workbench]
    copied._model_context = copy.copy(it._model_context)
    copied._model_context._messages = list(it._model_context._messages)
    copied.on_messages_stream = _stopping(copied.on_messages_stream, steps, flying)
    return copied


def _stopping(
    stream: Callable[..., Any], steps: AgentSteps, flying: set[asyncio.Future[Any]] | None = None
) -> Callable[..., AsyncIterator[Any]]:
    """A stream of what an agent does, which ends where the run stops in one of its steps."""

    async def stopping(*args: Any, **options: Any) -> AsyncIterator[Any]:
        try:
            async with aclosing(stream(*args, **options)) as events:
                async for event in events:
                    steps.check()
                    yield event
        except Exception as error:  # which a team, or an agent, may have made of another
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, FoldlogError):
                cause = cause.__cause__
            if cause is not None and cause not in steps.stopped:
                steps.stopped.append(cause)
            steps.check()
            raise
        finally:
            # The agent leaves the tools that it calls behind, where it is cancelled.
            for step in flying or ():
                step.cancel()
            if flying:
                await asyncio.wait(flying)

    return stopping


def _model(steps: AgentSteps, agent: str, client: ChatCompletionClient) -> Any:
    def recorded(result: CreateResult) -> Any:
        steps.run.usage(
            model=str(client.model_info["family"]),
            input_tokens=result.usage.prompt_tokens,
            output_tokens=result.usage.completion_tokens,
        )
        return result.model_dump(mode="json")

    async def create(messages: Sequence[Any], **options: Any) -> CreateResult:
        if steps.says:
            result: CreateResult = [each async for each in create_stream(messages, **options)][-1]
            return result

        async def ask() -> Any:
            return recorded(await client.create(messages, **options))

        return CreateResult.model_validate(await steps.model(agent, ask, _prompt_in(messages)))

    async def create_stream(messages: Sequence[Any], **options: Any) -> AsyncIterator[Any]:
        def step(hear: Callable[[Any], None]) -> Awaitable[Any]:
            async def ask() -> Any:
                result: CreateResult | None = None
                async for each in client.create_stream(messages, **options):
                    if isinstance(each, CreateResult):
                        result = each
                        continue
                    if steps.says:
                        await steps.run.say(each)
                    hear(each)
                if result is None:
                    raise RuntimeError("the model did not end its stream with a result")
                return recorded(result)

            return steps.model(agent, ask, _prompt_in(messages))

        async with aclosing(heard(step)) as things:
            async for thing, is_result in things:
                yield CreateResult.model_validate(thing) if is_result else thing

    return _With(client, create=create, create_stream=create_stream)


def _prompt_in(messages: Sequence[Any]) -> Any:
    """What a person, or another agent, has said last."""
    last = messages[-1] if messages else None
    if not isinstance(last, UserMessage):
        return None
    said = last.content
    return said if isinstance(said, str) else [each for each in said if isinstance(each, str)]


def _workbench(
    steps: AgentSteps, agent: str, workbench: Workbench, flying: set[asyncio.Future[Any]]
) -> Any:
    if isinstance(workbench, StaticWorkbench):
        tools = [_With(each, run_json=_noting(each.run_json)) for each in workbench._tools]
        workbench = copy.copy(workbench)
        workbench._tools = tools

    async def call_tool(
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: Any = None,
        call_id: str | None = None,
    ) -> ToolResult:
        result: Any = None

        async def call() -> Any:
            nonlocal result
            raised: list[Exception] = []
            _raised.set(raised)
            found = await workbench.call_tool(name, arguments, cancellation_token, call_id)
            result = found.model_dump(mode="json")
            if raised:
                raise raised[0]
            return result

        is_step = steps.options_of(name) is not False
        given = (agent, name, call_id or "", dict(arguments or {}))
        step = asyncio.ensure_future(
            steps.tool(*given, call, lambda _: result) if is_step else call()
        )
        flying.add(step)
        step.add_done_callback(flying.discard)
        await asyncio.wait([step])
        error = step.exception()
        if isinstance(error, Exception):  # raised, AssistantAgent would wait for ever
            done = result or str(error)
            if is_step or isinstance(error, FoldlogError):
                steps.stopped.append(error)
        else:
            done = step.result()
        if not isinstance(done, dict) or done.keys() != ToolResult.model_fields.keys():
            text = done if isinstance(done, str) else str(done)  # as a person has confirmed it
            return ToolResult(name=name, result=[TextResultContent(content=text)])
        return ToolResult.model_validate(done)

    return _With(workbench, call_tool=call_tool)


def _noting(run_json: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def noting(*args: Any, **options: Any) -> Any:
        try:
            return await run_json(*args, **options)
        except Exception as error:
            _raised.get().append(error)
            raise

    return noting
