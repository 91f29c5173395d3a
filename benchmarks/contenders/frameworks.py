"""Stores of agent frameworks: foldlog's adapters, and what each framework's users have otherwise.

A framework is driven the same way whoever keeps its items: `DRIVERS` has one function for each.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

import foldlog
from benchmarks.contenders.foldlog_store import Foldlog
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable

Append = Callable[[str], Awaitable[object]]
"""Appends an item with this text to a session; it has returned when the promise holds."""

Begin = Callable[[str], Awaitable[Append]]
"""Begins the session of an id."""

SYNCED: Final = "fsynced write-ahead log (journal_mode=WAL, synchronous=FULL)"

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


# --- their own -----------------------------------------------------------------------------------


class Theirs:
    """A store that a framework's users have without foldlog, on fresh data."""

    name: ClassVar[str]
    promise: ClassVar[str] = SYNCED
    framework: ClassVar[str]

    def __init__(self, site: Site) -> None:
        self.site = site
        self.stack = AsyncExitStack()
        self.begin: Begin

    async def open(self) -> None:
        """Make the store, and drive its framework on it."""
        try:
            self.begin = await self.drive()
        except ImportError as error:
            raise Unavailable(f"{error.name} is not installed") from error

    async def drive(self) -> Begin:
        """Drive the framework on what `make` makes. ImportError: something is not installed."""
        return DRIVERS[self.framework](await self.make())

    async def make(self) -> Any:
        """Return what the driver of the framework takes."""
        raise NotImplementedError

    async def facts(self) -> dict[str, str]:
        """Nothing beyond the promise: the pragmas are set for each connection."""
        return {}

    async def close(self) -> None:
        """Close what was opened."""
        await self.stack.aclose()

    def path(self) -> Path:
        """A database file that has a write-ahead log already, as some of them need be told."""
        path = self.site.directory("framework") / "items.db"
        database = sqlite3.connect(path)
        database.execute("PRAGMA journal_mode=WAL")
        database.close()
        return path


class OpenAiSqlite(Theirs):
    """SQLiteSession of openai-agents, one object a session. SQLite itself syncs in full."""

    name = "SQLiteSession"
    framework = OPENAI

    async def make(self) -> Any:
        """One file for all sessions."""
        session_class, path = import_module("agents").SQLiteSession, self.path()

        def make(session_id: str) -> Any:
            session = session_class(session_id, path)
            self.stack.callback(session.close)
            return session

        return make


class OpenAiSqlAlchemy(Theirs):
    """SQLAlchemySession of openai-agents, on SQLite."""

    name = "SQLAlchemySession"
    framework = OPENAI

    async def make(self) -> Any:
        """One engine for all sessions."""
        module = import_module("agents.extensions.memory.sqlalchemy_session")
        engine = make_engine(self.stack, self.path())
        return partial(module.SQLAlchemySession, engine=engine, create_tables=True)


class OpenAiRedis(Theirs):
    """RedisSession of openai-agents."""

    name = "RedisSession"
    promise = "fsynced by Redis (appendfsync always)"
    framework = OPENAI

    async def make(self) -> Any:
        """One client for all sessions."""
        module = import_module("agents.extensions.memory.redis_session")
        redis = import_module("redis.asyncio")
        client = redis.Redis.from_url(await self.site.redis())
        self.stack.push_async_callback(client.aclose)
        return lambda session_id: module.RedisSession(session_id, redis_client=client)


class AdkDatabase(Theirs):
    """DatabaseSessionService of google-adk, on SQLite."""

    name = "DatabaseSessionService"
    framework = ADK

    async def make(self) -> Any:
        """One service."""
        module = import_module("google.adk.sessions.database_session_service")
        return module.DatabaseSessionService(db_engine=make_engine(self.stack, self.path()))


class A2ADatabase(Theirs):
    """DatabaseTaskStore of a2a-sdk, on SQLite."""

    name = "DatabaseTaskStore"
    framework = A2A

    async def make(self) -> Any:
        """One store."""
        tasks = import_module("a2a.server.tasks")
        return tasks.DatabaseTaskStore(make_engine(self.stack, self.path()))


class AgentFrameworkRedis(Theirs):
    """RedisHistoryProvider of agent-framework-redis."""

    name = "RedisHistoryProvider"
    promise = OpenAiRedis.promise
    framework = AGENT_FRAMEWORK

    async def make(self) -> Any:
        """One provider for all sessions."""
        provider = import_module("agent_framework.redis").RedisHistoryProvider
        made = provider(redis_url=await self.site.redis(), application_id="bench")
        self.stack.push_async_callback(made.aclose)
        return made


class ClaudeSqlite(Theirs):
    """A `SessionStore` on SQLite, as small as the SDK's contract lets one be."""

    name = "a SessionStore on SQLite"
    framework = CLAUDE

    async def make(self) -> Any:
        """One store."""
        return await open_sqlite(self, "framework_transcripts", "SqliteTranscripts")


class PydanticSqlite(Theirs):
    """A `ConversationStore` on SQLite, as small as Pydantic AI's contract lets one be."""

    name = "a ConversationStore on SQLite"
    framework = PYDANTIC

    async def make(self) -> Any:
        """One store."""
        return await open_sqlite(self, "framework_conversations", "SqliteConversations")


async def open_sqlite(contender: Theirs, module: str, name: str) -> Any:
    """Open a store of ours on SQLite, until the contender is closed."""
    store_class = getattr(import_module(f"benchmarks.contenders.{module}"), name)
    store = await store_class.open(contender.path())
    contender.stack.push_async_callback(store.close)
    return store


def make_engine(stack: AsyncExitStack, path: Path) -> Any:
    """An engine of SQLAlchemy whose connections sync every commit."""
    aio, event = import_module("sqlalchemy.ext.asyncio"), import_module("sqlalchemy.event")
    engine = aio.create_async_engine(f"sqlite+aiosqlite:///{path}", connect_args={"timeout": 60})

    def sync(connection: Any, _: object) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")

    event.listen(engine.sync_engine, "connect", sync)
    stack.push_async_callback(engine.dispose)
    return engine


PEERS: Final[Mapping[str, tuple[type[Theirs], ...]]] = {
    OPENAI: (OpenAiSqlite, OpenAiSqlAlchemy, OpenAiRedis),
    ADK: (AdkDatabase,),
    A2A: (A2ADatabase,),
    AGENT_FRAMEWORK: (AgentFrameworkRedis,),
    CLAUDE: (ClaudeSqlite,),
    PYDANTIC: (PydanticSqlite,),
}
"""What each adapter is compared with."""


# --- following a task of A2A ---------------------------------------------------------------------


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


class PolledTasks(Theirs):
    """VersionedDatabaseTaskStore of a2a-sdk on SQLite, and the stream that polls it."""

    name = "DatabaseTaskEventStream"

    async def open(self) -> None:
        """An engine for each of them."""
        path = self.path()
        try:
            cluster = import_module("a2a.server.cluster.database_task_store")
            events = import_module("a2a.server.cluster.database_event_stream")
            writing, reading = (make_engine(self.stack, path) for _ in range(2))
        except ImportError as error:
            raise Unavailable(f"{error.name} is not installed") from error
        self.tasks = cluster.VersionedDatabaseTaskStore(writing)
        await self.tasks.initialize()
        self.stream = events.DatabaseTaskEventStream(reading)
