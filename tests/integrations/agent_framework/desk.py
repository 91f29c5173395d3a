"""An agent without a model service, which counts, and the workflow of the example."""

import importlib.util
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from agent_framework import Agent, BaseChatClient, ChatResponse, Message

REFUNDS = "refunds"


def load_example() -> Any:
    path = Path(__file__).parents[3] / "examples" / "agent_framework_agent.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = load_example()
Refund, make_workflow = example.Refund, example.refunds


class Counting(BaseChatClient):
    """Says how often a user has spoken."""

    def _inner_get_response(
        self, *, messages: Any, stream: bool = False, options: Any = None, **_: Any
    ) -> Awaitable[ChatResponse]:
        async def answer() -> ChatResponse:
            heard = sum(each.role == "user" for each in messages)
            return ChatResponse(messages=[Message("assistant", [f"{heard} heard"])])

        return answer()


def make_agent(provider: Any) -> Agent:
    return Agent(Counting(), name="desk", context_providers=[provider])
