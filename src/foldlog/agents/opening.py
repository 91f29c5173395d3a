"""Where state managers come from: a store's log, or memory."""

from __future__ import annotations

import functools
from typing import TypeVar

from pydantic import BaseModel

from foldlog.agents.ledger import Ledger
from foldlog.agents.manager import AgentStates
from foldlog.errors import Misuse
from foldlog.log.memory import MemoryLog
from foldlog.store.core import Backend
from foldlog.store.options import Options
from foldlog.store.store import BaseStore
from foldlog.subjects import checked_id
from foldlog_projections.agents import agentlist

R = TypeVar("R")


class NoRuntimeState(BaseModel):
    """The state of a runtime that has none of its own."""


class LogStateRepository:
    """Managers over a store's log. Two of one name have the same states, in any process.

    Args:
        journal: the store.
    """

    def __init__(self, journal: BaseStore) -> None:
        self._journal = journal

    @functools.cached_property
    def _transient(self) -> InMemoryStateRepository:
        return InMemoryStateRepository()

    def create_manager(
        self,
        runtime_state_type: type[R],
        name: str = "default",
        *,
        persisted: bool = True,
        session_id: str | None = None,
    ) -> AgentStates[R]:
        """Return the manager of a runtime: it lives as long as the store.

        Its scopes are on one shard, chosen by the name; give separate runtimes other names.

        Args:
            runtime_state_type: the model of the runtime's state.
            name: the runtime.
            persisted: False for state that the agents of this process share and that ends with the
                store: nothing of it reaches the log.
            session_id: the session that each scope belongs to, and is cleared with, from its first
                turn by this manager on. None: to none.

        Raises:
            InvalidId: the name or the session id is empty.
            Misuse: what is not persisted belongs to no session.
        """
        if not persisted:
            if session_id is not None:
                raise Misuse(
                    "persisted=False and session_id=: state that is not saved cannot belong to a "
                    "session"
                )
            return self._transient.create_manager(runtime_state_type, name)
        if session_id is not None:
            checked_id(session_id, "session_id")
        ledger = Ledger(self._journal, checked_id(name, "name"), session_id)
        return AgentStates(ledger, runtime_state_type)

    async def managers(self) -> list[str]:
        """Return the names of the managers whose agents have had state, sorted.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return [key.keys[0] for key in await self._journal.keys(agentlist.kind)]


class StoreAgents(AgentStates[NoRuntimeState]):
    """The manager named "default" and the repository of others, made by `store.agents`."""

    def __init__(self, journal: BaseStore) -> None:
        super().__init__(Ledger(journal, "default"), NoRuntimeState)
        self.repository: LogStateRepository = LogStateRepository(journal)


class InMemoryStateRepository(LogStateRepository):
    """Managers over a log in this process's memory. Two of one name have the same states."""

    def __init__(self) -> None:
        log = MemoryLog()
        super().__init__(BaseStore(Backend(log, log.blobs, log.snapshots), Options()))
