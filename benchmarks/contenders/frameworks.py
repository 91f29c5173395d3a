"""How agent frameworks are driven, and foldlog's adapters of them.

A framework is driven the same way on every store: `DRIVERS` has one function for each.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, Final

import foldlog
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.unavailable import Unavailable

Append = Callable[[str], Awaitable[object]]
"""Appends an item with this text to a session; it has returned when the promise holds."""

Begin = Callable[[str], Awaitable[Append]]
"""Begins the session of an id."""

A2A: Final = "A2A"
ADK: Final = "Google ADK"
AGENT_FRAMEWORK: Final = "Agent Framework"
CLAUDE: Final = "Claude Agent SDK"
OPENAI: Final = "OpenAI Agents"
PYDANTIC: Final = "Pydantic AI"


# --- how each framework is driven ----------------------------------------------------------------


def drive_openai(make: Callable[[str], Any]) -> Begin:
    """Add an item to the session that `make` returns for an id."""

    async def begin(session_id: str) -> Append:
        session = make(session_id)
        return lambda text: session.add_items([{"role": "user", "content": text}])

    return begin


def drive_claude(store: Any) -> Begin:
    """Append a line of a transcript."""

    async def begin(session_id: str) -> Append:
        key = {"project_key": "bench", "session_id": session_id}

        def append(text: str) -> Awaitable[object]:
            message = {"role": "user", "content": text}
            entry = {"type": "user", "uuid": str(uuid.uuid4()), "message": message}
            appended: Awaitable[object] = store.append(key, [entry])
            return appended

        return append

    return begin


def drive_adk(service: Any) -> Begin:
    """Append an event to a session."""
    event_class = import_module("google.adk.events").Event
    types = import_module("google.genai.types")

    async def begin(session_id: str) -> Append:
        session = await service.create_session(
            app_name="bench", user_id="user", session_id=session_id
        )

        def append(text: str) -> Awaitable[object]:
            content = types.Content(role="user", parts=[types.Part(text=text)])
            event = event_class(author="user", invocation_id="one", content=content)
            appended: Awaitable[object] = service.append_event(session, event)
            return appended

        return append

    return begin


def drive_a2a(store: Any) -> Begin:
    """Save a task again, with another status."""
    context = import_module("a2a.server.context").ServerCallContext()

    async def begin(session_id: str) -> Append:
        return lambda text: store.save(make_task(session_id, text), context)

    return begin


def drive_pydantic(store: Any) -> Begin:
    """Save a conversation with one message more."""
    messages = import_module("pydantic_ai.messages")
    conversation_class = import_module("pydantic_ai.conversation").Conversation

    async def begin(session_id: str) -> Append:
        conversation = conversation_class(conversation_id=session_id)

        def append(text: str) -> Awaitable[object]:
            part = messages.UserPromptPart(content=text)
            conversation.messages.append(messages.ModelRequest(parts=[part]))
            saved: Awaitable[object] = store.save(conversation)
            return saved

        return append

    return begin


def drive_agent_framework(provider: Any) -> Begin:
    """Save a message of a session."""
    message_class = import_module("agent_framework").Message

    async def begin(session_id: str) -> Append:
        return lambda text: provider.save_messages(session_id, [message_class("user", [text])])

    return begin


DRIVERS: Final[Mapping[str, Callable[[Any], Begin]]] = {
    A2A: drive_a2a,
    ADK: drive_adk,
    AGENT_FRAMEWORK: drive_agent_framework,
    CLAUDE: drive_claude,
    OPENAI: drive_openai,
    PYDANTIC: drive_pydantic,
}


def make_task(task_id: str, text: str) -> Any:
    """A task of A2A that works, and says this."""
    pb = import_module("a2a.types.a2a_pb2")
    message = pb.Message(message_id="m", role=pb.ROLE_AGENT, parts=[pb.Part(text=text)])
    status = pb.TaskStatus(state=pb.TASK_STATE_WORKING, message=message)
    return pb.Task(id=task_id, context_id=task_id, status=status)


# --- foldlog -------------------------------------------------------------------------------------


def _adapter(module: str, name: str) -> Any:
    return getattr(import_module(f"foldlog.integrations.{module}"), name)


def _openai_sessions(store: foldlog.Store) -> Callable[[str], Any]:
    session_class = _adapter("openai_agents", "FoldlogSession")
    return lambda session_id: session_class(session_id, store)


_ADAPTERS: Final[Mapping[str, Callable[[foldlog.Store], Any]]] = {
    A2A: lambda store: _adapter("a2a", "FoldlogTaskStore")(store),
    ADK: lambda store: _adapter("google_adk", "FoldlogSessionService")(store),
    AGENT_FRAMEWORK: lambda store: _adapter("agent_framework", "FoldlogHistoryProvider")(store),
    CLAUDE: lambda store: _adapter("claude_agent", "FoldlogSessionStore")(store),
    OPENAI: _openai_sessions,
    PYDANTIC: lambda store: _adapter("pydantic_ai", "FoldlogConversationStore")(store),
}


class Adapters(Foldlog):
    """foldlog's adapter of each framework, on one store."""

    def drive(self, framework: str) -> Begin:
        """Drive a framework on foldlog. Raises Unavailable."""
        try:
            return DRIVERS[framework](_ADAPTERS[framework](self.store))
        except (ImportError, foldlog.ConfigurationError) as error:
            raise Unavailable(str(error)) from error


class FollowedTasks(Adapters):
    """foldlog's versioned tasks and their events, which another store follows."""

    async def open(self) -> None:
        """Connect twice."""
        await super().open()
        self._other = await self.another()
        try:
            self.tasks = _adapter("a2a", "FoldlogVersionedTaskStore")(self.store)
            self.stream = _adapter("a2a", "FoldlogTaskEventStream")(self._other)
        except (ImportError, foldlog.ConfigurationError) as error:
            await self.close()
            raise Unavailable(str(error)) from error

    async def close(self) -> None:
        """Close both stores."""
        await self._other.close()
        await super().close()
