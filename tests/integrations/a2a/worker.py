"""An A2A server in another process. Run as a script; says one JSON value per line.

worker.py PATH WHAT

WHAT is "begin": it is sent a first message, and its agent writes chunk after chunk until it is
killed; it says the task's id, then the number of chunks whenever a client has heard of another.
"TASK_ID end": it is sent another message of that task, and its agent writes three chunks more and
completes it; it says how many there are. "TASK_ID follow": a client subscribes; it says the number
of chunks of the task, then the text of each that comes, until the task has ended.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, cast

# Run as a script, so that a worker costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from a2a.helpers.proto_helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
)

import foldlog
from foldlog.integrations.a2a import FoldlogTaskEventStream, FoldlogVersionedTaskStore
from tests.integrations.a2a.support import ANN


def say(heard: Any) -> None:
    sys.stdout.write(json.dumps(heard) + "\n")
    sys.stdout.flush()


class Writer(AgentExecutor):
    """Goes on from the chunks that there are."""

    def __init__(self, more: int | None) -> None:
        self._more = more

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task: Any = context.current_task
        updater = TaskUpdater(event_queue, str(context.task_id), str(context.context_id))
        if task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
            await updater.start_work()
        count = chunks_of(task)
        end = None if self._more is None else count + self._more
        while end is None or count < end:
            part = [Part(text=str(count))]
            await updater.add_artifact(part, artifact_id="story", append=count > 0)
            count += 1
            await asyncio.sleep(0.001)
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nothing is cancelled here."""


def chunks_of(task: Any) -> int:
    return len(task.artifacts[0].parts) if task is not None and task.artifacts else 0


async def main(path: str, task_id: str, what: str) -> None:
    async with foldlog.connect(path=path) as store:
        tasks, make = FoldlogVersionedTaskStore(store), cast(Any, DefaultRequestHandler)
        server = make(
            agent_executor=Writer(None if what == "begin" else 3),
            agent_card=AgentCard(capabilities=AgentCapabilities(streaming=True)),
            task_store=tasks,
            event_stream=FoldlogTaskEventStream(store),
        )
        if what == "follow":
            events = server.on_subscribe_to_task(SubscribeToTaskRequest(id=task_id), ANN)
        else:
            message = Message(message_id=what, role=Role.ROLE_USER, parts=[Part(text=what)])
            if task_id:
                stored = await tasks.get(task_id, ANN)
                message.task_id, message.context_id = task_id, stored.task.context_id
            events = server.on_message_send_stream(SendMessageRequest(message=message), ANN)
        is_told = False
        async for event in events:
            if isinstance(event, Task):  # also whenever it gets a message
                if what == "begin" or not is_told:
                    say(event.id if what == "begin" else chunks_of(event))
                is_told = True
            elif isinstance(event, TaskArtifactUpdateEvent):
                said = event.artifact.parts[0].text
                say(int(said) + 1 if what == "begin" else said)
        await server.aclose()
        if what == "end":
            stored = await tasks.get(task_id, ANN)
            say(chunks_of(stored.task))


if __name__ == "__main__":
    _, _path, *_rest = sys.argv
    asyncio.run(main(_path, _rest[0] if len(_rest) > 1 else "", _rest[-1]))
