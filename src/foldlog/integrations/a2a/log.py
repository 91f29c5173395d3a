"""What the classes of an A2A server share: their log, and A2A's messages as JSON."""

from __future__ import annotations

from functools import partial
from typing import Any

from a2a.server.cluster import TaskVersion
from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope
from google.protobuf import json_format

from foldlog.errors import ConfigurationError, PayloadError, shown
from foldlog.integrations.objects import read_as
from foldlog.kind import Key
from foldlog.opening import Store
from foldlog_projections.a2a import a2atasks
from foldlog_projections.a2a.a2atasks import AgentTask


class OnLog:
    """What the classes of an A2A server share.

    Args:
        store: an open store, on the server's event loop.
        name: servers of one name share their tasks, and see no others.
        owner_resolver: as in the A2A SDK, whose a call's tasks are: its user's, by default.

    Raises:
        ConfigurationError: `store` is none.
    """

    def __init__(
        self, store: Store, *, name: str = "a2a", owner_resolver: OwnerResolver = resolve_user_scope
    ) -> None:
        if not isinstance(store, Store):
            raise ConfigurationError(f"an A2A server needs a foldlog.Store, not {shown(store)}")
        self._store = store
        self._name = name
        self._owner_of = owner_resolver

    def _key(self, task_id: str) -> Key[AgentTask]:
        return a2atasks.kind(self._name, task_id)


def json_of(message: Any) -> Any:
    """A message of A2A as JSON. Raises PayloadError: JSON cannot say it."""
    try:
        return json_format.MessageToDict(message)
    except json_format.Error as fault:  # NaN, for instance
        raise PayloadError(type(message).__name__, str(fault)) from fault


def parse(body: Any, message: Any, what: str) -> Any:
    """A message of A2A; what a newer SDK has added to it is left out. Unreadable: it is none."""
    return read_as(partial(_parse, message=message), body, what)


def _parse(body: Any, message: Any) -> Any:
    if not isinstance(body, dict):  # ParseDict would take text for unknown fields
        raise TypeError(f"{shown(body)} is no message")
    return json_format.ParseDict(body, message, ignore_unknown_fields=True)


def number_of(version: TaskVersion) -> int:
    """The number of a version. Raises TypeError: another store made it."""
    value = version._value  # as the SDK's own stores do: it has no public name
    if not isinstance(value, int):
        raise TypeError(f"foldlog has integer versions, not {shown(value)}")
    return value
