"""An A2A server for the A2A TCK: python -m tests.integrations.a2a.tck_server PORT [DIRECTORY]

Its tasks are on foldlog in DIRECTORY; without one, in the SDK's own stores, to compare with. The
id of a message says what the agent does, as the TCK's scenarios have it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import httpx
import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Part,
    Task,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import A2AError
from google.protobuf import json_format, struct_pb2
from starlette.applications import Starlette

import foldlog
from foldlog.integrations.a2a import (
    FoldlogPushNotificationConfigStore,
    FoldlogTaskEventStream,
    FoldlogVersionedTaskStore,
)

_DATA: Final = json_format.ParseDict({"key": "value", "count": 42}, struct_pb2.Value())
_FILE: Final = {"media_type": "text/plain", "filename": "output.txt"}
PARTS: Final = {
    "tck-stream-001": Part(text="Stream hello from TCK"),
    "tck-stream-003": Part(text="Stream task lifecycle"),
    "tck-stream-ordering-001": Part(text="Ordered output"),
    "tck-stream-artifact-text": Part(text="Streamed text content"),
    "tck-stream-artifact-file": Part(raw=b"tck", **_FILE),
    "tck-artifact-file-url": Part(url="https://example.com/output.txt", **_FILE),
    "tck-artifact-file": Part(raw=b"tck", **_FILE),
    "tck-artifact-text": Part(text="Generated text content"),
    "tck-artifact-data": Part(data=_DATA),
}


class Agent(AgentExecutor):
    """Does what the id of a message asks for."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        message: Any = context.message
        updater = TaskUpdater(event_queue, str(context.task_id), str(context.context_id))
        asked = message.message_id
        if asked.startswith("tck-message-response"):
            answer = updater.new_agent_message([Part(text="Direct message response")])
            await event_queue.enqueue_event(answer)
            return
        if asked.startswith("tck-reject-task"):
            raise A2AError("rejected")
        if context.current_task is None:
            status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            ids = {"id": context.task_id, "context_id": context.context_id}
            await event_queue.enqueue_event(Task(**ids, status=status, history=[message]))
        if asked.startswith("tck-input-required"):
            await updater.requires_input()
            return
        if asked.startswith(("tck-stream", "test-resubscribe")):
            await updater.start_work()
        if asked.startswith("test-resubscribe"):
            await asyncio.sleep(4)
        parts = next((part for name, part in PARTS.items() if asked.startswith(name)), None)
        if parts is not None:
            await updater.add_artifact([parts])
        if asked.startswith("tck-stream-artifact-chunked"):
            await updater.add_artifact([Part(text="chunk-1 ")], artifact_id="chunks")
            chunk = [Part(text="chunk-2")]
            await updater.add_artifact(chunk, artifact_id="chunks", append=True, last_chunk=True)
        await updater.complete(updater.new_agent_message([Part(text="Hello from TCK")]))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, str(context.task_id), str(context.context_id)).cancel()


def card_of(url: str) -> AgentCard:
    """What the server says of itself."""
    bindings = {"JSONRPC": f"{url}/", "HTTP+JSON": f"{url}/rest"}
    return AgentCard(
        name="foldlog",
        description="An agent for the TCK",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=at, protocol_binding=name, protocol_version="1.0")
            for name, at in bindings.items()
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=True),
        default_input_modes=["text"],
        default_output_modes=["text"],
        skills=[AgentSkill(id="tck", name="TCK", description="Runs its scenarios", tags=["tck"])],
    )


@asynccontextmanager
async def handler_of(directory: str | None, card: AgentCard) -> AsyncIterator[Any]:
    """A handler on foldlog in a directory, or on the SDK's own stores."""
    make: Callable[..., Any] = DefaultRequestHandler
    about: dict[str, Any] = {"agent_executor": Agent(), "agent_card": card}
    async with AsyncExitStack() as open_until_the_end:
        configs: Any = InMemoryPushNotificationConfigStore()
        if directory is None:
            about["task_store"] = InMemoryTaskStore()
        else:
            store = await open_until_the_end.enter_async_context(foldlog.connect(path=directory))
            about["task_store"] = FoldlogVersionedTaskStore(store)
            about["event_stream"] = FoldlogTaskEventStream(store)
            configs = FoldlogPushNotificationConfigStore(store)
        client = await open_until_the_end.enter_async_context(httpx.AsyncClient())
        sender = BasePushNotificationSender(client, configs)
        yield make(**about, push_config_store=configs, push_sender=sender)


async def serve(port: int, directory: str | None) -> None:
    """Serve until the process is told to end."""
    card = card_of(f"http://127.0.0.1:{port}")
    async with handler_of(directory, card) as handler:
        app = Starlette(
            routes=[
                *create_agent_card_routes(card, cache_control="public, max-age=60"),
                *create_jsonrpc_routes(handler, "/"),
                *create_rest_routes(handler, path_prefix="/rest"),
            ]
        )
        config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning")
        await uvicorn.Server(config).serve()
        await handler.aclose()


if __name__ == "__main__":
    _, _port, *_directory = sys.argv
    asyncio.run(serve(int(_port), _directory[0] if _directory else None))
