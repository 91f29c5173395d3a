"""State managers over fresh data, in memory and on logs; each call gives another on the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import ClassVar

import pytest
from pydantic import BaseModel

import foldlog
from foldlog.agents import AgentStates, InMemoryStateRepository, StateRepository
from tests.support.stores import Backend, EmbeddedBackend, MemoryBackend


class Run(BaseModel):
    """A runtime's own state."""

    rounds: int = 0


class Cart(BaseModel):
    items: list[str] = []
    total: int = 0


class Note(BaseModel):
    text: str


class Secret(BaseModel):
    state_exportable: ClassVar[bool] = False

    password: str = ""


OpenManager = Callable[..., Awaitable[AgentStates[Run]]]


@pytest.fixture(params=["memory", "log in memory", pytest.param("log", marks=pytest.mark.long)])
def log_backend(request: pytest.FixtureRequest) -> Backend | None:
    """Where a log is kept; None for state that is on none."""
    match request.param:
        case "memory":
            return None
        case "log in memory":
            return MemoryBackend()
        case _:
            return EmbeddedBackend(request.getfixturevalue("embedded_path"))


@pytest.fixture
async def open_manager(log_backend: Backend | None) -> AsyncIterator[OpenManager]:
    """Another manager on the test's data, by name; on a log it is another store's."""
    opened: list[foldlog.Store] = []
    repository: StateRepository = InMemoryStateRepository()

    async def open_(name: str = "default") -> AgentStates[Run]:
        made = repository
        if log_backend is not None:
            opened.append(await log_backend.open())
            made = opened[-1].agents.repository
        manager = made.create_manager(Run, name)
        assert isinstance(manager, AgentStates)
        return manager

    yield open_
    for store in reversed(opened):
        await store.close()


@pytest.fixture
async def manager(open_manager: OpenManager) -> AgentStates[Run]:
    """A manager over empty data."""
    return await open_manager()
