"""An A2A agent that asks a question and waits for the answer, over restarts. Run it twice.

python examples/a2a_agent.py

The first run ends while the agent waits. The second one, another process, finds what waits and
answers it. The agent follows a script; yours asks a model, and its handler stands behind routes.
"""

from __future__ import annotations

import asyncio

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, Message, Part, Role, SendMessageRequest

import foldlog
from foldlog.integrations.a2a import FoldlogTaskEventStream, FoldlogVersionedTaskStore


class Guide(AgentExecutor):
    """Asks where to, then says how."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Answer a message of the user."""
        updater = TaskUpdater(event_queue, str(context.task_id), str(context.context_id))
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            await updater.requires_input(updater.new_agent_message([Part(text="Where to?")]))
        else:
            await updater.add_artifact([Part(text=f"To {context.get_user_input()}: by train.")])
            await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Stop."""
        await TaskUpdater(event_queue, str(context.task_id), str(context.context_id)).cancel()


def message(text: str, **ids: str) -> SendMessageRequest:
    """What a user says."""
    parts = [Part(text=text)]
    said = Message(message_id=text, role=Role.ROLE_USER, parts=parts, **ids)
    return SendMessageRequest(message=said)


async def main() -> None:
    """Answer the question that waits; begin a task, if none does."""
    async with foldlog.connect(pause_ttl=7 * 24 * 3600) as store:
        handler = DefaultRequestHandler(
            agent_executor=Guide(),
            agent_card=AgentCard(name="guide", capabilities=AgentCapabilities(streaming=True)),
            task_store=FoldlogVersionedTaskStore(store),
            event_stream=FoldlogTaskEventStream(store),
        )
        waiting = await store.waiting()
        if not waiting:
            request = message("Plan my trip", context_id="trip")
            task = await handler.on_message_send(request, ServerCallContext())
            print(task.status.message.parts[0].text, "Run it again.")
        for item in waiting:
            request = message("Oslo", task_id=item.task_id, context_id=item.session_id)
            task = await handler.on_message_send(request, ServerCallContext())
            print(task.artifacts[0].parts[0].text)
        await handler.aclose()


if __name__ == "__main__":
    asyncio.run(main())
