"""The scripted agent of the matrix, as a graph whose nodes do their calls as steps of a run."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime

import foldlog
from foldlog.integrations.langgraph import FoldlogSaver
from tests.integrations.durable.script import Script


def make(script: Script) -> Any:
    """The durable function that does the script."""
    return durable(script)


def make_bare(script: Script) -> Any:
    """The same, without steps or checkpoints: what the matrix has to find out."""
    return durable(script, is_bare=True)


def make_repeating(script: Script) -> Any:
    """The same, with tools that say wrongly that they may be done twice."""
    return durable(script, is_repeatable=True)


def durable(script: Script, *, is_bare: bool = False, is_repeatable: bool = False) -> Any:
    """A durable function that invokes the graph."""

    async def done(run: foldlog.Run, name: str, call: Any, *args: Any, **options: Any) -> Any:
        return await (call(*args) if is_bare else run.step(name, call, *args, **options))

    async def respond(responses: int) -> list[dict[str, Any]]:
        return [
            {"name": each.tool, "args": {"city": each.city}, "id": each.id}
            for each in script.model(responses)
        ]

    async def act(tool: str, city: str) -> str:
        return script.tool(tool, city)

    async def model(state: MessagesState, runtime: Runtime[foldlog.Run]) -> dict[str, Any]:
        said = state["messages"]
        number = sum(isinstance(each, AIMessage) for each in said)
        name = f"model {number + 1}"
        calls = await done(runtime.context, name, respond, number, kind="model", repeatable=True)
        results = [str(each.content) for each in said if isinstance(each, ToolMessage)]
        text = "" if calls else script.answer(results)
        return {"messages": [AIMessage(text, tool_calls=calls)]}

    async def tools(state: MessagesState, runtime: Runtime[foldlog.Run]) -> dict[str, Any]:
        last: Any = state["messages"][-1]
        results = []
        for call in last.tool_calls:
            tool, city, options = call["name"], call["args"]["city"], {"repeatable": is_repeatable}
            name = f"{tool} {call['id']}"
            found = await done(runtime.context, name, act, tool, city, kind="tool", **options)
            results.append(ToolMessage(found, tool_call_id=call["id"]))
        return {"messages": results}

    def has_calls(state: MessagesState) -> str:
        last: Any = state["messages"][-1]
        return "tools" if last.tool_calls else END

    builder = StateGraph(MessagesState, context_schema=foldlog.Run)
    builder.add_node("model", model)
    builder.add_node("tools", tools)
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", has_calls, ["tools", END])
    builder.add_edge("tools", "model")

    @foldlog.durable(name="agent", attempts=10)
    async def function(run: foldlog.Run, prompt: str) -> str:
        given: Any = {"messages": [("user", prompt)]}
        if is_bare:
            bare = await builder.compile().ainvoke(given, context=run)
            return str(bare["messages"][-1].content)
        graph = builder.compile(checkpointer=FoldlogSaver(run.store))
        thread: Any = {"configurable": {"thread_id": run.session_id}}
        has_begun = (await graph.aget_state(thread)).created_at is not None
        state = await graph.ainvoke(None if has_begun else given, thread, context=run)
        return str(state["messages"][-1].content)

    return function
