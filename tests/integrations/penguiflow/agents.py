"""A planner with two tools whose model says what a script says."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from penguiflow.catalog import build_catalog, tool
from penguiflow.node import Node
from penguiflow.planner import ReactPlanner
from penguiflow.registry import ModelRegistry
from pydantic import BaseModel

Step = Mapping[str, Any]


class Script:
    """An LLM client that says its lines in order. `heard` are the messages of each call."""

    def __init__(self, *lines: Step) -> None:
        self._lines = [json.dumps(line) for line in lines]
        self.heard: list[str] = []

    async def complete(
        self, *, messages: Sequence[Mapping[str, Any]], **options: Any
    ) -> tuple[str, float]:
        self.heard.append(json.dumps(messages))
        return self._lines.pop(0), 0.0


def call(tool_name: str, **arguments: Any) -> Step:
    """The line that calls a tool."""
    return {"thought": f"call {tool_name}", "next_node": tool_name, "args": arguments}


def answer(text: str) -> Step:
    """The line that ends a run."""
    return {"thought": "done", "next_node": None, "args": {"raw_answer": text}}


class Question(BaseModel):
    text: str


class Reply(BaseModel):
    text: str


@tool(desc="Ask a person and wait for the answer")
async def ask(args: Question, ctx: Any) -> Reply:
    await ctx.pause("await_input", {"question": args.text})
    return Reply(text="never reached")


@tool(desc="Say it again")
async def echo(args: Question, ctx: Any) -> Reply:
    return Reply(text=args.text)


def planner(store: Any, *lines: Step, **options: Any) -> tuple[ReactPlanner, Script]:
    """A planner on `store`, and the script that drives it."""
    registry = ModelRegistry()
    registry.register("ask", Question, Reply)
    registry.register("echo", Question, Reply)
    catalog = build_catalog([Node(ask, name="ask"), Node(echo, name="echo")], registry)
    script = Script(*lines)
    made = ReactPlanner(
        llm_client=script, catalog=catalog, max_iters=6, state_store=store, **options
    )
    return made, script


def context(session_id: str, trace_id: str) -> dict[str, Any]:
    """The tool context of a run: who runs, and under which names it is kept."""
    return {
        "tenant_id": "acme",
        "user_id": "ada",
        "session_id": session_id,
        "trace_id": trace_id,
    }
