"""The protocols of agent state, in the shape of AutoGen's state management proposal.

A context in a turn, a manager of turns, and a repository that makes managers for runtimes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

from foldlog.agents.models import AgentStateEntry, Scope, ShareToken, StateChange
from foldlog.agents.turns import TurnStateContext

T = TypeVar("T")
R = TypeVar("R")
RuntimeState_co = TypeVar("RuntimeState_co", covariant=True)


class StateContext(Protocol[T]):
    """An agent's states of one model, in one turn: `TurnStateContext.of(model)`."""

    async def get(self, key: str) -> T:
        """Return the state of a key as the turn sees it: the caller's own."""
        ...

    def update(self, key: str, state: T) -> None:
        """Set the state of a key. The turn sees it at once, others when it completes."""
        ...

    def reset(self, key: str) -> None:
        """Undo the turn's updates of a key."""
        ...

    def share(self, key: str) -> ShareToken:
        """Return a token that opens the key to its holder, once the turn completes."""
        ...


@runtime_checkable
class StateManager(Protocol[RuntimeState_co]):
    """The states of a runtime's agents, and its own."""

    def turn(self, scope: Scope) -> TurnStateContext:
        """Begin a turn of an agent: `async with manager.turn("writer/1") as ctx:`."""
        ...

    async def get_agent_state(
        self, scope: Scope, key: str, model: type[T]
    ) -> AgentStateEntry[T] | None:
        """Return one key of an agent's state, or None."""
        ...

    async def set_agent_state(self, entry: AgentStateEntry[T]) -> AgentStateEntry[T]:
        """Store an entry, if the key still is at the entry's version; return it as it is then."""
        ...

    async def runtime_state(self) -> RuntimeState_co:
        """Return the runtime's own state."""
        ...

    def watch(self, scope: Scope) -> AsyncGenerator[StateChange]:
        """Yield every turn of an agent that completes, without end."""
        ...

    @property
    def is_exportable(self) -> bool:
        """Whether it is an ExportableStateManager."""
        ...


@runtime_checkable
class ExportableStateManager(StateManager[RuntimeState_co], Protocol[RuntimeState_co]):
    """A manager whose states can be taken elsewhere."""

    async def dump_state(self) -> Mapping[str, Any]:
        """Return all states as what JSON can hold."""
        ...

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Make these all the states there are, at once."""
        ...


class StateRepository(Protocol):
    """Where managers come from."""

    def create_manager(
        self, runtime_state_type: type[R], name: str = "default"
    ) -> ExportableStateManager[R]:
        """Return the manager of a runtime by its name, whose own state is of that model."""
        ...
