"""Whatever Pydantic AI calls a durable operation is a step: done once, and loaded as it was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, get_args

import pytest
from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.durable_exec import (
    CapabilityOperationId,
    DurableOperationId,
    EventStreamHandlerId,
    JournalOperationNamer,
    ModelCancelSuspendedResponseId,
    ModelCompactMessagesId,
    ModelRequestId,
    ToolsetCallToolId,
    ToolsetGetInstructionsId,
    ToolsetGetToolsId,
    ToolsetValidateToolArgumentsId,
)
from pydantic_ai.messages import FinalResultEvent, ModelMessage, ModelResponse, TextPart
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

import foldlog
from foldlog.integrations.pydantic_ai import FoldlogDurability
from foldlog.integrations.pydantic_ai.operations import Place, place_now

CONTEXT = SimpleNamespace(run_step=1, prompt="go", tool_call_id="c1")
CALL = ("search", {"city": "Oslo"}, CONTEXT, None)
RESPONSE = {"parts": [], "usage": {"input_tokens": 3}, "model_name": "m"}
FINAL = FinalResultEvent(tool_name=None, tool_call_id=None)

OPERATIONS: list[tuple[DurableOperationId, tuple[Any, ...], Any, str, str]] = [
    (ModelRequestId(model_name="m"), (CONTEXT,), RESPONSE, "model 1", "model"),
    (ModelRequestId(streaming=True, model_name="m"), (CONTEXT,), RESPONSE, "model 1", "model"),
    (ModelCompactMessagesId(model_name="m"), (), RESPONSE, "model.compact_messages", "step"),
    (
        ModelCancelSuspendedResponseId(model_name="m"),
        (),
        None,
        "model.cancel_suspended_response",
        "step",
    ),
    (CapabilityOperationId("rates", operation="fetch"), (), 7, "capability rates.fetch", "step"),
    (EventStreamHandlerId(), (FINAL,), None, "final_result", "step"),
    (ToolsetGetToolsId("mcp", toolset_id="rail"), (), {}, "mcp_server rail.get_tools", "step"),
    (ToolsetGetInstructionsId("rail"), (), "ask", "mcp_server rail.get_instructions", "step"),
    (
        ToolsetValidateToolArgumentsId("dynamic", toolset_id="rail"),
        CALL,
        None,
        "validate search c1",
        "step",
    ),
    (
        ToolsetCallToolId("function", toolset_id="rail"),
        CALL,
        {"kind": "tool_return", "result": [7]},
        "search c1",
        "tool",
    ),
]
"""Of each operation: what decides it, what it gives, and the name and the kind of its step."""


def test_every_operation_is_here() -> None:
    assert {type(each[0]) for each in OPERATIONS} == set(get_args(DurableOperationId))


@pytest.mark.parametrize(("id", "key", "given", "step", "kind"), OPERATIONS)
async def test_an_operation_is_a_step_that_is_done_once(
    store: foldlog.Store,
    id: DurableOperationId,
    key: tuple[Any, ...],
    given: Any,
    step: str,
    kind: str,
) -> None:
    made = 0

    async def body() -> Any:
        nonlocal made
        made += 1
        return given

    label = "search" if key == CALL else None
    name = JournalOperationNamer("travel").invocation_name(id, label=label).operation_name
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            token = place_now.set(Place(run, "travel", await run.steps()))
            try:
                durability: Any = FoldlogDurability(run, name="travel")
                found = await durability.get_durable_operation_backend().execute(
                    operation_id=id, name=name, body=body, cache_key=key, config={}
                )
            finally:
                place_now.reset(token)
        assert (found, made) == (given, 1)
    [done] = await store.run("r", session_id="s").steps()
    assert (done.step, done.kind) == (f"travel: {step}", kind)


async def test_a_conversation_is_made_shorter_once_and_its_tokens_count(
    store: foldlog.Store,
) -> None:
    made: list[str] = []

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        made.append("model")
        return ModelResponse([TextPart(f"after {len(messages)}")])

    class Compacting(FunctionModel):
        async def compact_messages(
            self, request_context: ModelRequestContext, *, instructions: str | None = None
        ) -> ModelResponse:
            made.append("compact")
            usage = RequestUsage(input_tokens=100, output_tokens=10)
            return ModelResponse([TextPart("short")], usage=usage)

    class Compacts(AbstractCapability[None]):
        async def before_model_request(
            self, ctx: Any, request_context: ModelRequestContext
        ) -> ModelRequestContext:
            *before, last = request_context.messages
            if before:
                short = await request_context.model.compact_messages(
                    ModelRequestContext(
                        model=request_context.model,
                        messages=before,
                        model_settings=None,
                        model_request_parameters=request_context.model_request_parameters,
                    )
                )
                request_context.messages = [short, last]
            return request_context

    agent = Agent(Compacting(respond), name="travel", capabilities=[Compacts()])
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            durability = FoldlogDurability(run)
            first = await agent.run("one", capabilities=[durability])
            durability = FoldlogDurability(run)
            again = await agent.run(
                "two", message_history=first.all_messages(), capabilities=[durability]
            )
            assert again.output == "after 2"
    assert made == ["model", "compact", "model"]
    [short] = [
        each for each in await store.run("r", session_id="s").steps() if "compact" in each.step
    ]
    assert (short.input_tokens, short.output_tokens) == (100, 10)


async def test_a_suspended_response_is_cancelled_once(store: foldlog.Store) -> None:
    made: list[str] = []

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if getattr(messages[-1], "state", "") == "suspended":
            made.append("continue")
            raise ConnectionError("the model is gone")
        made.append("model")
        return ModelResponse([TextPart("one moment")], state="suspended")

    class Cancelling(FunctionModel):
        async def cancel_suspended_response(self, response: ModelResponse) -> None:
            assert response.state == "suspended"
            made.append("cancel")

    agent = Agent(Cancelling(respond), name="travel")
    for _ in range(2):
        with pytest.raises(ConnectionError, match="the model is gone"):
            async with store.run("r", session_id="s") as run:
                await agent.run("go", capabilities=[FoldlogDurability(run)])
    assert made == ["model", "continue", "cancel", "continue"]


async def test_a_registered_model_is_asked_by_its_name_and_once(store: foldlog.Store) -> None:
    made: list[str] = []

    def saying(text: str) -> FunctionModel:
        def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            made.append(text)
            return ModelResponse([TextPart(text)])

        return FunctionModel(respond)

    agent = Agent(saying("dear"), name="travel")
    for _ in range(2):
        async with store.run("r", session_id="s") as run:
            said = []
            for name in (None, "cheap"):
                durability = FoldlogDurability[None](run, models={"cheap": saying("cheap")})
                found = await agent.run("go", model=name, capabilities=[durability])
                said.append(found.output)
            assert said == ["dear", "cheap"]
    assert made == ["dear", "cheap"]
