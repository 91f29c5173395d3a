"""Stores that users of agent frameworks have without foldlog, on fresh data."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Final

from benchmarks.contenders.frameworks import (
    A2A,
    ADK,
    AGENT_FRAMEWORK,
    CLAUDE,
    DRIVERS,
    OPENAI,
    PYDANTIC,
    Begin,
)
from benchmarks.contenders.postgres import Postgres
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable

SYNCED: Final = "fsynced write-ahead log (journal_mode=WAL, synchronous=FULL)"


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


class OnSqlite(Theirs):
    """A store of ours on SQLite: `store` names the module and the class."""

    store: ClassVar[tuple[str, str]]

    async def make(self) -> Any:
        """One store."""
        made = await _class_of(self.store).open(self.path())
        self.stack.push_async_callback(made.close)
        return made


class OnPostgres(Theirs):
    """A store of ours on PostgreSQL: `store` names the module and the class."""

    promise = Postgres.promise
    store: ClassVar[tuple[str, str]]

    async def make(self) -> Any:
        """One store, through a pool of connections."""
        self._postgres = Postgres(self.site)
        await self._postgres.open()
        self.stack.push_async_callback(self._postgres.close)
        return await _class_of(self.store).open(self._postgres.pool)

    async def facts(self) -> dict[str, str]:
        """What decides about its durability."""
        return await self._postgres.facts()


class ClaudePostgres(OnPostgres):
    """A `SessionStore` that does what the example of the SDK's repository does."""

    name = "a SessionStore on PostgreSQL"
    framework = CLAUDE
    store = ("framework_transcripts", "PostgresTranscripts")


class ClaudeSqlite(OnSqlite):
    """A `SessionStore` on SQLite, as small as the SDK's contract lets one be."""

    name = "a SessionStore on SQLite"
    framework = CLAUDE
    store = ("framework_transcripts", "SqliteTranscripts")


class PydanticPostgres(OnPostgres):
    """A `ConversationStore` that saves with one statement of PostgreSQL."""

    name = "a ConversationStore on PostgreSQL"
    framework = PYDANTIC
    store = ("framework_conversations", "PostgresConversations")


class PydanticSqlite(OnSqlite):
    """A `ConversationStore` on SQLite, as small as Pydantic AI's contract lets one be."""

    name = "a ConversationStore on SQLite"
    framework = PYDANTIC
    store = ("framework_conversations", "SqliteConversations")


def _class_of(store: tuple[str, str]) -> Any:
    module, name = store
    return getattr(import_module(f"benchmarks.contenders.{module}"), name)


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


PEERS: Final[Mapping[str, tuple[type[Theirs], ...]]] = {
    OPENAI: (OpenAiSqlite, OpenAiSqlAlchemy, OpenAiRedis),
    ADK: (AdkDatabase,),
    A2A: (A2ADatabase,),
    AGENT_FRAMEWORK: (AgentFrameworkRedis,),
    CLAUDE: (ClaudePostgres, ClaudeSqlite),
    PYDANTIC: (PydanticPostgres, PydanticSqlite),
}
"""What each adapter is compared with."""
