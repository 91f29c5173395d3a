"""Where state managers come from: a store's log, or memory."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

from foldlog.agents.ledger import LogBackend
from foldlog.agents.manager import AgentStates
from foldlog.agents.memory import MemoryBackend
from foldlog.store.primitives import Primitives
from foldlog.subjects import checked_id

R = TypeVar("R", bound=BaseModel)


class NoRuntimeState(BaseModel):
    """The state of a runtime that has none of its own."""


class LogStateRepository:
    """Managers over a store's log. Two of one name have the same states, in any process."""

    def __init__(self, journal: Primitives) -> None:
        self._journal = journal

    def create_manager(self, runtime_state_type: type[R], name: str = "default") -> AgentStates[R]:
        """Return the manager of a runtime: it lives as long as the store.

        Its scopes are on one shard, chosen by the name; runtimes that share nothing are best
        given names of their own.

        Raises:
            InvalidId: the name is empty.
        """
        return AgentStates(LogBackend(self._journal, checked_id(name, "name")), runtime_state_type)


class StoreAgents(AgentStates[NoRuntimeState]):
    """`store.agents`: the manager named "default", and the repository of others."""

    def __init__(self, repository: LogStateRepository, states: LogBackend) -> None:
        super().__init__(states, NoRuntimeState)
        self.repository = repository


class InMemoryStateRepository:
    """Managers in this process's memory. Two of one name have the same states."""

    def __init__(self) -> None:
        self._backends: dict[str, MemoryBackend] = {}

    def create_manager(self, runtime_state_type: type[R], name: str = "default") -> AgentStates[R]:
        """Return the manager of a runtime: it lives as long as the repository.

        Raises:
            InvalidId: the name is empty.
        """
        backend = self._backends.setdefault(checked_id(name, "name"), MemoryBackend())
        return AgentStates(backend, runtime_state_type)


def agents(journal: Primitives) -> StoreAgents:
    """Return the agent state of a store."""
    return StoreAgents(LogStateRepository(journal), LogBackend(journal, "default"))
