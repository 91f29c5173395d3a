"""Agents of Agent Framework as runs: each model call and each tool is a step.

    @foldlog.durable
    async def travel(run: foldlog.Run, prompt: str) -> str:
        response = await agent_in(run, agent).run(prompt)
        return response.text

The contract is the chat middleware and the function middleware of `agent_framework`.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, Literal

from agent_framework import (
    Agent,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    MiddlewareException,
    ResponseStream,
    UserInputRequiredException,
    chat_middleware,
    function_middleware,
)
from agent_framework.exceptions import ToolExecutionException
from pydantic_core import to_jsonable_python

from foldlog.errors import FoldlogError, Misuse
from foldlog.integrations.calls import AgentSteps, StepOptions, all_answers, heard
from foldlog.runs import Run

Next = Callable[[], Awaitable[None]]

_APPROVAL: Final = "function_approval_request"
_LOOP: Final = FunctionTool.__module__
"""The module whose private errors say that a tool was not called: its arguments were wrong."""


def agent_in(
    run: Run,
    agent: Agent[Any],
    *,
    asks: bool = True,
    model: StepOptions | None = None,
    tools: Mapping[str, StepOptions | Literal[False]] | None = None,
    say: bool = False,
) -> Agent[Any]:
    """Return a copy of an agent, whose model calls and tools are steps of a run.

    A model call that has ended is never made again. A tool whose worker died in it is not called
    again, unless `tools` says that it may be: `store.waiting()` asks whether it happened. What a
    tool raises is on record, too: the model hears of it, as it does without a run. A tool with
    `approval_mode="always_require"` waits in `store.waiting()`, and takes no worker meanwhile:
    `store.answer` gives True, False or the reason why not. Results of tools are recorded as JSON.

    The run begins anew in each execution, and comes to where it was by what is on record: give it
    no session, or a new one.

    Args:
        run: an open run, of `store.run` or a worker. The copy lasts as long as it.
        agent: it stays as it is. Two agents of one name cannot run side by side.
        asks: whether approvals are asked for. False: the response has `user_input_requests`.
        model: options of the steps that are model calls. They are repeatable, if not said else.
        tools: options of the steps that are tools, by the tool's name. False: it is no step.
        say: whether the run says what the model says, live: `handle.stream()` yields its updates as
            they come, and later. The model is asked for a stream then.

    Raises:
        Misuse: an option is none of `Run.step`; or the agent, or its client, has no middleware, or
            it persists its history for each call of a service.
    """
    client: Any = getattr(agent, "client", None)
    layers = isinstance(client, ChatMiddlewareLayer) and isinstance(client, FunctionInvocationLayer)
    if not isinstance(agent, Agent) or not layers:
        raise Misuse(
            f"{type(agent).__name__} of {type(client).__name__} has no middleware, which makes "
            "calls steps: agent_in takes an Agent whose client has the layers for chat middleware "
            "and function invocation"
        )
    if agent.require_per_service_call_history_persistence:
        raise Misuse(
            "agent_in takes no agent with require_per_service_call_history_persistence: calls on "
            "record are not made again, and the history would miss them"
        )
    steps = AgentSteps(run, model=model, tools=tools, says=say)
    name = agent.name or "agent"
    copied = copy.copy(agent)
    copied.context_providers = list(agent.context_providers)
    added = [_model_calls(steps, name), _tool_calls(steps, name)]
    copied.middleware = [*(agent.middleware or []), *added]
    start: Any = copied.run

    async def answered(messages: Any, session: Any, options: Any) -> Any:
        session = session or copied.create_session()
        while True:
            begun = start(messages, session=session, stream=say, **options)
            response = await (begun.get_final_response() if say else begun)
            steps.check()
            asked = response.user_input_requests
            if not asks or not asked or any(each.type != _APPROVAL for each in asked):
                return response
            answers = await all_answers(
                steps.approved(name, c.name, c.call_id, to_jsonable_python(c.parse_arguments()))
                for c in (each.function_call for each in asked)
            )
            said = [
                each.to_function_approval_response(answer is True)
                for each, answer in zip(asked, answers, strict=True)
            ]
            why = [Content.from_text(each) for each in answers if isinstance(each, str)]
            messages = [Message("user", [*said, *why])]

    def run_agent(
        messages: Any = None, *, stream: bool = False, session: Any = None, **options: Any
    ) -> Any:
        steps.stopped.clear()
        if not stream:
            return answered(messages, session, options)
        started = start(messages, stream=True, session=session, **options)
        return started.with_result_hook(lambda _: steps.check())

    object.__setattr__(copied, "run", run_agent)
    return copied


def _model_calls(steps: AgentSteps, agent: str) -> Any:
    async def call(context: Any, call_next: Next) -> None:
        steps.check()
        last = context.messages[-1] if context.messages else None
        prompt = last.text if last is not None and last.role == "user" else None

        def step(hear: Callable[[Any], None] | None = None) -> Awaitable[Any]:
            async def ask() -> Any:
                await call_next()
                response = context.result
                if hear is not None:
                    async for update in response:
                        if steps.says:
                            await steps.run.say(to_jsonable_python(update.to_dict()))
                        hear(update)
                    response = await response.get_final_response()
                used = response.usage_details or {}
                steps.run.usage(
                    model=response.model or "",
                    input_tokens=used.get("input_token_count") or 0,
                    output_tokens=used.get("output_token_count") or 0,
                )
                return to_jsonable_python(response.to_dict())

            return steps.model(agent, ask, prompt)

        if not context.stream:
            context.result = ChatResponse.from_dict(await step())
            return

        async def updates() -> Any:
            is_live = False
            async with aclosing(heard(step)) as things:
                async for thing, is_result in things:
                    if not is_result:
                        is_live = True
                        yield thing
                    elif not is_live:  # it was on record
                        for update in _updates_of(ChatResponse.from_dict(thing)):
                            yield update

        context.result = ResponseStream(updates(), finalizer=ChatResponse.from_updates)

    return chat_middleware(call)


def _updates_of(response: ChatResponse[Any]) -> list[ChatResponseUpdate]:
    """A response as a stream of one update a message."""
    of_response: Any = {
        "response_id": response.response_id,
        "conversation_id": response.conversation_id,
        "model": response.model,
        "finish_reason": response.finish_reason,
    }
    return [
        ChatResponseUpdate(
            contents=each.contents,
            role=each.role,
            author_name=each.author_name,
            message_id=each.message_id,
            **of_response,
        )
        for each in response.messages
    ]


def _tool_calls(steps: AgentSteps, agent: str) -> Any:
    async def call(context: Any, call_next: Next) -> None:
        tool, id = context.function.name, context.metadata["call_id"]
        if steps.options_of(tool) is False:
            try:
                await call_next()
            except FoldlogError as error:  # the model would hear of it
                steps.stopped.append(error)
                raise
            return

        async def do() -> Any:
            await call_next()
            return {"contents": _recordable(context.result)}

        def failed(error: Exception) -> Any:
            is_loops = type(error).__module__ == _LOOP
            if is_loops or isinstance(error, MiddlewareException | UserInputRequiredException):
                raise error
            return {"failed": str(error)}

        given = to_jsonable_python(context.arguments, fallback=str)
        done = await steps.tool(agent, tool, id, given, do, failed)
        if isinstance(done, dict) and done.keys() == {"failed"}:
            raise ToolExecutionException(done["failed"])
        if not isinstance(done, dict) or done.keys() != {"contents"}:
            context.result = FunctionTool.parse_result(done)  # as a person has confirmed it
        else:
            context.result = [Content.from_dict(each) for each in done["contents"]]

    return function_middleware(call)


def _recordable(result: Any) -> Any:
    return [to_jsonable_python(each.to_dict()) for each in FunctionTool.parse_result(result)]
