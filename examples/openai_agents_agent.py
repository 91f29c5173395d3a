"""A refund desk on OpenAI Agents that waits for a person, over restarts. Run it twice.

python examples/openai_agents_agent.py

The first run stops at the tool that needs approval, and ends. The second one, another process,
finds what waits, approves it and finishes. Its model is a script; yours is a real one.
"""

from __future__ import annotations

import asyncio

from agents.testing import ScriptedModel, assistant_message, function_call

import foldlog
from agents import Agent, Runner, function_tool
from foldlog.integrations.openai_agents import FoldlogSession


@function_tool(needs_approval=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return f"Order {order} is paid back."


async def main() -> None:
    """Go on with the run that waits; begin one, if none does."""
    model = ScriptedModel()
    agent = Agent("desk", tools=[refund], model=model)
    async with foldlog.connect(pause_ttl=24 * 3600) as store:
        session = FoldlogSession("customer-ann", store)
        state = await session.resume(agent)
        if state is None:
            model.extend([[function_call("refund", {"order": 7}, call_id="call-1")]])
            result = await Runner.run(agent, "I want my money back", session=session)
            await session.pause(result.to_state())
            print("waiting for approval; run it again")
            return
        for interruption in state.get_interruptions():
            print("approved:", interruption.name, interruption.arguments)
            state.approve(interruption)
        model.extend([[assistant_message("It is on its way.")]])
        print((await Runner.run(agent, state, session=session)).final_output)


if __name__ == "__main__":
    asyncio.run(main())
