"""The words of agent state: entries, changes, versions and tokens."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from foldlog.differences import Difference
from foldlog.errors import InvalidId
from foldlog.subjects import checked_id

T = TypeVar("T")

RUNTIME_SCOPE: Final = "runtime"
"""The scope of the runtime's own state, beside those of its agents."""


@runtime_checkable
class AgentAddress(Protocol):
    """An agent id as runtimes have it: any object with `type` and `key`."""

    @property
    def type(self) -> str:
        """Which kind of agent it is."""

    @property
    def key(self) -> str:
        """Which agent of that kind."""


Scope = str | AgentAddress
"""The owner of a state: an agent id, as an object or as `type/key`; or any other text."""


def scope_text(scope: Scope) -> str:
    """Return a scope as text.

    Raises:
        InvalidId: it is empty, or neither text nor an agent id.
    """
    if isinstance(scope, str):
        return checked_id(scope, "scope")
    if not isinstance(scope, AgentAddress):
        raise InvalidId("scope", scope, "a text or an agent id is needed")
    return checked_id(f"{scope.type}/{scope.key}", "scope")


class ShareToken(str):
    """A secret text that opens one key of one agent's state to its holder.

    It may travel in a message. `ShareToken(text)` makes a token of it again.
    """

    __slots__ = ()

    @classmethod
    def new(cls) -> ShareToken:
        """Return a token that nobody can guess: 256 random bits."""
        return cls(secrets.token_urlsafe(32))

    @property
    def digest(self) -> str:
        """The token's name in the log, which opens nothing."""
        return hashlib.sha256(self.encode(errors="replace")).hexdigest()

    def __repr__(self) -> str:
        return f"ShareToken({self[:4]}...)"


@dataclass(frozen=True, slots=True)
class AgentStateEntry(Generic[T]):
    """One key of an agent's state.

    Attributes:
        scope: the agent.
        key: the key.
        type_: the state's model.
        version: the log position at which it was written; 0 for what was never written.
        state: the state, a copy that you may change.
    """

    scope: str
    key: str
    type_: type[T]
    version: int
    state: T


class KeyChange(NamedTuple):
    """The change of one key by a turn.

    Attributes:
        key: the key.
        type: the model's name, "" for plain data.
        before: the state before as plain data; None where there was none.
        after: the state after as plain data; None where there is none.
        diff: where the two differ.
    """

    key: str
    type: str
    before: Any
    after: Any
    diff: tuple[Difference, ...]


class StateChange(NamedTuple):
    """A turn that is complete.

    Attributes:
        scope: the agent.
        version: the turn's log position.
        ts: the writer's clock, in Unix seconds.
        label: what the turn is.
        changes: what it changed, by key.
    """

    scope: str
    version: int
    ts: float
    label: str
    changes: tuple[KeyChange, ...]


class StateVersion(NamedTuple):
    """A point in an agent's history.

    Attributes:
        scope: the agent.
        version: the turn's log position.
        ts: the writer's clock, in Unix seconds.
        label: what the turn is.
        keys: the keys that it changed.
    """

    scope: str
    version: int
    ts: float
    label: str
    keys: tuple[str, ...]
