"""Write a session of a framework by its real adapter. Run as a script: FRAMEWORK PATH.

Each asks for a refund, calls a tool with arguments, sees one fail, and, where the framework can,
waits for an approval. It needs the framework, and none of the page's packages.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

# Run as a script, in the environment of the frameworks.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import foldlog

ASKED = "Please pay order 7 back: it came **broken**."
ARGUMENTS = {"order": 7, "amount_eur": 12.5, "to": {"name": "Ann", "iban": "DE00"}}
RESULT = {"status": "paid", "order": 7}
FAILED = "the bank does not answer"
ANSWERED = "Order 7 was paid back.\n\n- amount: 12.50\n- to: Ann"


async def langgraph(store: foldlog.Store) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.types import interrupt

    from foldlog.integrations.langgraph import FoldlogSaver

    def model(state: MessagesState) -> Any:
        calls = [
            {"name": "refund", "args": ARGUMENTS, "id": f"call-{number}"} for number in range(2)
        ]
        return {"messages": [AIMessage("I look it up.", tool_calls=calls, id="ai-1")]}

    def tools(state: MessagesState) -> Any:
        return {
            "messages": [
                ToolMessage(FAILED, tool_call_id="call-0", name="refund", status="error", id="t-0"),
                ToolMessage('{"status": "paid"}', tool_call_id="call-1", name="refund", id="t-1"),
                AIMessage(ANSWERED, id="ai-2"),
            ]
        }

    def approve(state: MessagesState) -> Any:
        interrupt({"question": "Send the receipt?", "order": 7})

    graph = StateGraph(MessagesState)
    before = START
    for node in (model, tools, approve):
        graph.add_node(node.__name__, node)
        graph.add_edge(before, node.__name__)
        before = node.__name__
    compiled = graph.compile(checkpointer=FoldlogSaver(store))
    config = {"configurable": {"thread_id": "session"}}
    await compiled.ainvoke({"messages": [HumanMessage(ASKED, id="h-1")]}, config)


async def openai_agents(store: foldlog.Store) -> None:
    from agents import Runner
    from foldlog.integrations.openai_agents import FoldlogSession
    from tests.integrations.openai_agents.desk import make_desk

    session = FoldlogSession("session", store)
    call = {"type": "function_call", "name": "refund", "arguments": '{"order": 7, "to": "Ann"}'}
    output = {"type": "function_call_output", "call_id": "call-0", "output": f"Error: {FAILED}"}
    done = {"type": "function_call_output", "call_id": "call-1", "output": '{"status": "paid"}'}
    text = {"type": "output_text", "text": ANSWERED, "annotations": []}
    thought = {"type": "summary_text", "text": "They are in the right."}
    await session.add_items(
        [
            {"role": "user", "content": ASKED},
            {"type": "reasoning", "id": "r", "summary": [thought]},
            {**call, "call_id": "call-0"},
            output,
            {**call, "call_id": "call-1"},
            done,
            {"type": "message", "id": "m", "role": "assistant", "content": [text]},
        ]
    )
    result = await Runner.run(make_desk(), "refund 7", session=session)
    await session.pause(result.to_state(), user_id="ann")


async def claude_agent(store: foldlog.Store) -> None:
    from foldlog.integrations.claude_agent import FoldlogSessionStore

    sessions = FoldlogSessionStore(store)
    key = {"project_key": "acme", "session_id": "session"}

    def entry(number: int, role: str, content: Any) -> dict[str, Any]:
        message = {"role": role, "content": content}
        return {"type": role, "uuid": f"u{number}", "sessionId": "session", "message": message}

    use = {"type": "tool_use", "name": "refund", "input": ARGUMENTS}
    result = {"type": "tool_result"}
    await sessions.append(
        key,
        [
            {"type": "summary", "uuid": "s", "summary": "A refund"},
            entry(1, "user", ASKED),
            entry(2, "assistant", [{"type": "thinking", "thinking": "They are in the right."}]),
            entry(3, "assistant", [{**use, "id": "call-0"}]),
            entry(
                4,
                "user",
                [{**result, "tool_use_id": "call-0", "content": FAILED, "is_error": True}],
            ),
            entry(5, "assistant", [{**use, "id": "call-1"}]),
            entry(
                6,
                "user",
                [
                    {
                        **result,
                        "tool_use_id": "call-1",
                        "content": [{"type": "text", "text": '{"status": "paid"}'}],
                    }
                ],
            ),
            entry(7, "assistant", [{"type": "text", "text": ANSWERED}]),
            {"type": "custom-title", "customTitle": "Refund of order 7"},
        ],
    )


async def a2a(store: foldlog.Store) -> None:
    from a2a.helpers.proto_helpers import new_task_from_user_message
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.context import ServerCallContext
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.tasks import TaskUpdater
    from a2a.types import (
        AgentCapabilities,
        AgentCard,
        Message,
        Part,
        Role,
        SendMessageRequest,
    )

    from foldlog.integrations.a2a import FoldlogTaskEventStream, FoldlogVersionedTaskStore

    class Desk(AgentExecutor):
        async def execute(self, context: Any, event_queue: Any) -> None:
            updater = TaskUpdater(event_queue, context.task_id, context.context_id)
            said = updater.new_agent_message
            asked = context.message.parts[0].text
            if context.current_task is None:
                await event_queue.enqueue_event(new_task_from_user_message(context.message))
                await updater.start_work(said([Part(text="I look it up.")]))
                await updater.add_artifact(
                    [Part(text=ANSWERED)], artifact_id="receipt", name="receipt.md"
                )
                await updater.requires_input(said([Part(text="Send the receipt?")]))
            elif asked == "fail":
                await updater.failed(said([Part(text=FAILED)]))

        async def cancel(self, context: Any, event_queue: Any) -> None:
            """Nothing is cancelled here."""

    make: Any = DefaultRequestHandler
    handler = make(
        agent_executor=Desk(),
        agent_card=AgentCard(name="desk", capabilities=AgentCapabilities(streaming=True)),
        task_store=FoldlogVersionedTaskStore(store),
        event_stream=FoldlogTaskEventStream(store),
    )

    async def send(text: str, **ids: Any) -> Any:
        parts = [Part(text=text)]
        message = Message(message_id=text, role=Role.ROLE_USER, parts=parts, **ids)
        return await handler.on_message_send(
            SendMessageRequest(message=message), ServerCallContext()
        )

    task = await send(ASKED, context_id="session")
    other = await send("And order 8?", context_id="session")
    await send("fail", task_id=other.id, context_id="session")
    assert task.id != other.id
    await handler.aclose()


async def google_adk(store: foldlog.Store) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.genai import types

    from foldlog.integrations.google_adk import FoldlogSessionService

    def refund(order: int, amount_eur: float, to: dict[str, Any]) -> dict[str, Any]:
        """Pay an order back."""
        return RESULT

    def call_bank(order: int) -> dict[str, Any]:
        """Call the bank."""
        return {"status": "error", "error_message": FAILED}

    class Script(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            done = sum(
                bool(part.function_response)
                for content in llm_request.contents
                for part in content.parts
            )
            make = types.Part.from_function_call
            if done == 0:
                parts = [
                    types.Part(text="I look it up."),
                    make(name="call_bank", args={"order": 7}),
                ]
            elif done == 1:
                parts = [make(name="refund", args=ARGUMENTS)]
            else:
                parts = [types.Part(text=ANSWERED)]
            yield LlmResponse(content=types.Content(role="model", parts=parts))

    sessions = FoldlogSessionService(store)
    ids = {"app_name": "desk", "user_id": "ann", "session_id": "session"}
    await sessions.create_session(**ids, state={"city": "Oslo"})
    agent = LlmAgent(name="clerk", model=Script(model="script"), tools=[refund, call_bank])
    runner = Runner(app_name="desk", agent=agent, session_service=sessions)
    message = types.UserContent(ASKED)
    async for _ in runner.run_async(user_id="ann", session_id="session", new_message=message):
        pass


async def pydantic_ai(store: foldlog.Store) -> None:
    from pydantic_ai import Agent, DeferredToolRequests, ModelRetry
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        TextPart,
        ThinkingPart,
        ToolCallPart,
    )
    from pydantic_ai.models.function import FunctionModel

    from foldlog.integrations.pydantic_ai import FoldlogConversationStore

    def respond(messages: Any, info: Any) -> Any:
        requests = [each for each in messages if isinstance(each, ModelRequest)]
        match len(requests):
            case 1:
                thought = ThinkingPart("They are in the right.")
                call = ToolCallPart("call_bank", {"order": 7}, tool_call_id="call-0")
                return ModelResponse([thought, TextPart("I look it up."), call])
            case 2:
                return ModelResponse([ToolCallPart("read", ARGUMENTS, tool_call_id="call-1")])
            case 3:
                return ModelResponse([TextPart(ANSWERED)])
        return ModelResponse([ToolCallPart("refund", ARGUMENTS, tool_call_id="call-2")])

    agent: Any = Agent(
        FunctionModel(respond),
        output_type=[str, DeferredToolRequests],
        system_prompt="You are a *clerk*.",
    )

    @agent.tool_plain
    def call_bank(order: int) -> str:
        raise ModelRetry(FAILED)

    @agent.tool_plain
    def read(order: int, amount_eur: float, to: dict[str, Any]) -> Any:
        return RESULT

    @agent.tool_plain(requires_approval=True)
    def refund(order: int, amount_eur: float, to: dict[str, Any]) -> Any:
        return RESULT

    from pydantic_ai.conversation import Conversation

    conversations = FoldlogConversationStore(store)
    for asked in (ASKED, "Then do it."):
        found = await conversations.load("session") or Conversation(conversation_id="session")
        await conversations.save(await agent.run(asked, conversation=found))


async def agent_framework(store: foldlog.Store) -> None:
    from agent_framework import Content, Message

    from foldlog.integrations.agent_framework import (
        FoldlogCheckpointStorage,
        FoldlogHistoryProvider,
    )
    from tests.integrations.agent_framework.desk import Refund, make_workflow

    call, result = Content.from_function_call, Content.from_function_result
    provider = FoldlogHistoryProvider(store)
    await provider.save_messages(
        "session",
        [
            Message("user", [ASKED], author_name="Ann"),
            Message("assistant", [call("call-0", "call_bank", arguments='{"order": 7}')]),
            Message("tool", [result("call-0", result="", exception=FAILED)]),
            Message("assistant", [call("call-1", "refund", arguments=ARGUMENTS)]),
            Message("tool", [result("call-1", result=RESULT)]),
            Message("assistant", [ANSWERED], author_name="clerk"),
        ],
    )
    workflow = make_workflow(FoldlogCheckpointStorage("session", store, types=[Refund]))
    await workflow.run(7)


WRITERS = {
    each.__name__: each
    for each in (
        langgraph,
        openai_agents,
        claude_agent,
        a2a,
        google_adk,
        pydantic_ai,
        agent_framework,
    )
}


async def main(framework: str, path: str) -> None:
    """Write the session, and say its id."""
    async with foldlog.connect(path=path) as store:
        await WRITERS[framework](store)
        sys.stdout.write((await store.sessions())[0])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
