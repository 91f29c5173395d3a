"""Where state lives: a session, a workflow, an agent of one, everything, or a name of your own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from foldlog.errors import PayloadError
from foldlog.subjects import checked_id

_OF_ONE: Final = ("session", "workflow", "custom")
_IDS: Final = {"session": 1, "workflow": 1, "agent": 2, "global": 0, "custom": 1}


class Scope(msgspec.Struct, frozen=True):
    """One scope: a space of keys, made by `Scope.session` and the others. Equal ones are the same.

    Attributes:
        kind: how it was made.
        ids: from what.
    """

    kind: str
    ids: tuple[str, ...] = ()

    @classmethod
    def session(cls, id: str) -> Self:
        """Return the scope of one conversation.

        Args:
            id: the session.

        Raises:
            InvalidId: the id is empty, no string, or no valid Unicode.
        """
        return cls("session", (checked_id(id, "session"),))

    @classmethod
    def workflow(cls, id: str) -> Self:
        """Return the scope of one execution of a workflow.

        Args:
            id: the execution.

        Raises:
            InvalidId: the id is empty, no string, or no valid Unicode.
        """
        return cls("workflow", (checked_id(id, "workflow"),))

    @classmethod
    def agent(cls, workflow: str, agent: str) -> Self:
        """Return the scope of one agent within a workflow.

        Args:
            workflow: the workflow.
            agent: the agent.

        Raises:
            InvalidId: an id is empty, no string, or no valid Unicode.
        """
        return cls("agent", (checked_id(workflow, "workflow"), checked_id(agent, "agent")))

    @classmethod
    def global_(cls) -> Self:
        """Return the scope that all workflows of the namespace share."""
        return cls("global")

    @classmethod
    def custom(cls, name: str) -> Self:
        """Return a scope of another name.

        Args:
            name: the name.

        Raises:
            InvalidId: the name is empty, no string, or no valid Unicode.
        """
        return cls("custom", (checked_id(name, "custom scope"),))

    @property
    def subject_key(self) -> str:
        """The scope as one key of a subject: no two scopes have the same one."""
        if len(self.ids) < 2:
            return ":".join((self.kind, *self.ids))
        workflow, agent = self.ids
        return f"{self.kind}:{len(workflow)}:{workflow}:{agent}"

    @classmethod
    def from_subject_key(cls, key: str) -> Self:
        """Return the scope of a `subject_key`.

        Args:
            key: the key.
        """
        kind, *ids = key.split(":", 1)
        if kind == "agent":
            length, rest = ids[0].split(":", 1)
            ids = [rest[: int(length)], rest[int(length) + 1 :]]
        return cls(kind, tuple(ids))

    def to_json(self) -> Any:
        """Return the form that layer0 writes: `{"session": "s1"}`, `"global"` and so on."""
        if self.kind == "global":
            return self.kind
        if self.kind == "agent":
            return {self.kind: dict(zip(("workflow", "agent"), self.ids, strict=True))}
        return {self.kind: self.ids[0]}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Return the scope that `to_json`, or layer0, wrote.

        Args:
            data: what was written. Later versions of layer0 call an agent `operator`.

        Raises:
            PayloadError: it is no scope.
            InvalidId: an id is empty.
        """
        if data == "global":
            return cls.global_()
        if isinstance(data, Mapping) and len(data) == 1:
            [(kind, held)] = data.items()
            if kind in _OF_ONE:
                return cls(kind, (checked_id(held, kind),))
            if kind in ("agent", "operator") and isinstance(held, Mapping):
                return cls.agent(held.get("workflow", ""), held.get(kind, ""))
        raise PayloadError("scope", f"{data!r:.80} is no scope")


def checked_scope(scope: Scope) -> Scope:
    """Return a scope as it is, or raise PayloadError if it is none."""
    if not isinstance(scope, Scope) or _IDS.get(scope.kind) != len(scope.ids):
        raise PayloadError("scope", f"{scope!r:.80} is no Scope")
    return scope
