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
        """Return the state of `key` as the turn sees it, as a copy that you may change."""

    def update(self, key: str, state: T) -> None:
        """Set the state of `key` to `state`. The turn sees it at once, others when it completes."""

    def reset(self, key: str) -> None:
        """Undo the turn's updates of `key`."""

    def share(self, key: str) -> ShareToken:
        """Return a token that opens `key` to its holder, once the turn completes."""


@runtime_checkable
class StateManager(Protocol[RuntimeState_co]):
    """The states of a runtime's agents, and the runtime's state."""

    def turn(self, scope: Scope) -> TurnStateContext:
        """Return a turn of the agent `scope`: `async with manager.turn("writer/1") as ctx:`."""

    async def get_agent_state(
        self, scope: Scope, key: str, model: type[T]
    ) -> AgentStateEntry[T] | None:
        """Return the state of `key` of the agent `scope`, read as `model`, or None."""

    async def set_agent_state(self, entry: AgentStateEntry[T]) -> AgentStateEntry[T]:
        """Store `entry` if its key is still at its version; return it as it is then."""

    async def runtime_state(self) -> RuntimeState_co:
        """Return the runtime's state."""

    def watch(self, scope: Scope) -> AsyncGenerator[StateChange]:
        """Yield every turn of the agent `scope` that completes, without end."""

    @property
    def is_exportable(self) -> bool:
        """Whether it is an ExportableStateManager."""


@runtime_checkable
class ExportableStateManager(StateManager[RuntimeState_co], Protocol[RuntimeState_co]):
    """A manager whose states can be taken elsewhere."""

    async def dump_state(self) -> Mapping[str, Any]:
        """Return all states as what JSON can hold."""

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Make the states of the dump `state` all the states there are, at once."""


class StateRepository(Protocol):
    """Where managers come from."""

    def create_manager(
        self, runtime_state_type: type[R], name: str = "default"
    ) -> ExportableStateManager[R]:
        """Return the manager called `name`, whose runtime's state is a `runtime_state_type`."""
