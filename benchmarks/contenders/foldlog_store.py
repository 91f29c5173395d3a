"""foldlog itself: on its embedded server, and on three servers with three replicas."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any, ClassVar

import foldlog
from benchmarks.site import Site
from benchmarks.unavailable import Unavailable
from foldlog import StateUpdate, SteeringEvent, StoredEvent


class Foldlog:
    """A store on the embedded server, as `foldlog.connect()` opens it."""

    name: ClassVar[str] = "foldlog"
    promise: ClassVar[str] = "fsynced by nats-server (sync_interval: always)"
    shards: ClassVar[int] = 1

    def __init__(self, site: Site) -> None:
        self._site = site
        self.path = site.directory("foldlog")
        self.store: foldlog.Store

    async def open(self) -> None:
        """Connect to a server of its own."""
        try:
            self.store = await self.another()
        except foldlog.FoldlogError as error:
            raise Unavailable(str(error)) from error

    @property
    def where(self) -> str:
        """What another process attaches by."""
        return str(self.path)

    async def attach(self, where: str) -> None:
        """Use the log that another process has open."""
        self.path = Path(where)
        await self.open()

    async def facts(self) -> dict[str, str]:
        """What the store knows of its server."""
        health = await self.store.health()
        return {
            "foldlog": foldlog.__version__,
            "nats-server": health.server_version,
            "durability": health.durability,
            "replicas": str(health.streams[0].replicas),
        }

    async def reopen(self) -> None:
        """Close the store and connect again: nothing is held in the process."""
        await self.store.close()
        self.store = await self.another()

    async def another(self) -> foldlog.Store:
        """Another store on the same log, as another process would open it. The caller closes it."""
        return await foldlog.connect(path=self.path, durability="fsync", shards=self.shards)

    async def close(self) -> None:
        """Close the store; its server stops with it."""
        await self.store.close()

    async def save(self, update: StateUpdate) -> None:
        """Save one update."""
        await self.store.save_update(update)

    async def load(self, updates: Iterable[StateUpdate], *, together: int) -> None:
        """Save them by so many writers. Those of one session that meet share a record."""
        waiting = iter(updates)

        async def loader() -> None:
            for update in waiting:
                await self.store.save_update(update)

        async with asyncio.TaskGroup() as group:
            for _ in range(together):
                group.create_task(loader())

    async def list_updates(self, session_id: str, since: str | None = None) -> list[StateUpdate]:
        """Read a session's updates with the default consistency."""
        return await self.store.list_updates(session_id, since_id=since)

    async def save_events(self, events: Sequence[StoredEvent]) -> None:
        """Save many events in one call."""
        await self.store.save_events(events)

    async def load_history(self, trace_id: str) -> list[StoredEvent]:
        """Read a trace."""
        return await self.store.load_history(trace_id)

    async def save_memory(self, key: str, state: dict[str, Any]) -> None:
        """Save a session's memory."""
        await self.store.save_memory_state(key, state)

    async def load_memory(self, key: str) -> dict[str, Any] | None:
        """Read a session's memory."""
        return await self.store.load_memory_state(key)

    async def pause(self, token: str, state: dict[str, Any]) -> None:
        """Save what a pause resumes with."""
        await self.store.save_planner_state(token, state)

    async def resume(self, token: str) -> dict[str, Any] | None:
        """Consume a pause."""
        return await self.store.load_planner_state(token)

    async def steer(self, event: SteeringEvent) -> None:
        """Save a steering event."""
        await self.store.save_steering(event)


class StrongReads(Foldlog):
    """The same, reading with `consistency="strong"`."""

    name: ClassVar[str] = "foldlog strong"

    async def list_updates(self, session_id: str, since: str | None = None) -> list[StateUpdate]:
        """Read a session's updates, as of now."""
        return await self.store.list_updates(session_id, since_id=since, consistency="strong")


class Watched(Foldlog):
    """The same, with a second store that watches: another connection, as another process has."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._watching: foldlog.Store

    async def open(self) -> None:
        """Connect twice."""
        await super().open()
        self._watching = await self.another()

    async def close(self) -> None:
        """Close both stores."""
        await self._watching.close()
        await super().close()

    async def watch(self, session_id: str) -> AsyncGenerator[str | None]:
        """Yield the id of each new event. One event saved before tells that the watcher is up."""
        first = SteeringEvent(
            session_id=session_id,
            task_id="task-1",
            event_type=foldlog.SteeringEventType.USER_MESSAGE,
            payload={"text": "hello"},
        )
        await self.store.save_steering(first)
        async with aclosing(self._watching.watch_steering(session_id)) as events:
            async for event in events:
                yield None if event.event_id == first.event_id else event.event_id


class Replicated(Foldlog):
    """A store on three servers, each stream kept three times."""

    name: ClassVar[str] = "foldlog R3"
    promise: ClassVar[str] = "fsynced by two of three nats-servers (sync_interval: always)"

    async def another(self) -> foldlog.Store:
        """Another store on the same cluster."""
        return await foldlog.connect(",".join(await self._site.cluster()), replicas=3)
