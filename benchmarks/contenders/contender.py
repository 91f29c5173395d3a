"""What a contender is: a name, a promise, and the calls that scenarios ask of it.

Each protocol here is one capability. A contender has those that it can honestly have; a scenario
names the kinds that it compares, and the type checker sees to it that they fit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, ClassVar, Protocol

from benchmarks.site import Site
from foldlog import StateUpdate, SteeringEvent, StoredEvent


class Contender(Protocol):
    """Made on a site; usable from `open`, which begins with empty data, until `close`.

    `promise`: what is so once a save has returned.
    """

    name: ClassVar[str]
    promise: ClassVar[str]

    def __init__(self, site: Site) -> None: ...

    async def open(self) -> None:
        """Raises Unavailable where this contender cannot run."""
        ...

    async def facts(self) -> dict[str, str]:
        """The versions and settings in effect, as asked of whoever keeps the data."""
        ...

    async def close(self) -> None: ...


class Saves(Contender, Protocol):
    """Saves one update; it has returned when the promise holds."""

    async def save(self, update: StateUpdate) -> object: ...


class Lists(Saves, Protocol):
    """Reads a session's updates: those after the id `since`, at most 500, as new objects."""

    async def list_updates(self, session_id: str, since: str | None = None) -> Sequence[Any]: ...


class Loads(Lists, Protocol):
    """Takes very many updates, for the scenarios that need a full log to begin with.

    `together`: how many are saved side by side, where they are saved one by one.
    """

    async def load(self, updates: Iterable[StateUpdate], *, together: int) -> None: ...


class KeepsEvents(Contender, Protocol):
    """Saves many events in one call, and reads a trace's, in order, as new objects."""

    async def save_events(self, events: Sequence[StoredEvent]) -> None: ...

    async def load_history(self, trace_id: str) -> Sequence[Any]: ...


class KeepsState(Contender, Protocol):
    """Keeps a session's memory by key, and pauses that are resumed once."""

    async def save_memory(self, key: str, state: dict[str, Any]) -> None: ...

    async def load_memory(self, key: str) -> dict[str, Any] | None: ...

    async def pause(self, token: str, state: dict[str, Any]) -> None: ...

    async def resume(self, token: str) -> dict[str, Any] | None: ...


class Steers(Contender, Protocol):
    """Saves a steering event, and pushes each new one to those who watch its session.

    `watch` first yields None, when what is saved from then on will be seen; then an event's id
    for each.
    """

    async def steer(self, event: SteeringEvent) -> None: ...

    def watch(self, session_id: str) -> AsyncGenerator[str | None]: ...
