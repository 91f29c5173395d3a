"""What LangGraph gives a checkpointer, as the log has it, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from foldlog import codec
from foldlog.errors import PayloadError
from foldlog_projections.langgraph.bodies import Body
from foldlog_projections.langgraph.checkpointrecords import Typed
from foldlog_projections.langgraph.namespaces import Pending


class Place(NamedTuple):
    """What a config names: a thread, a namespace, and a checkpoint or None for the latest."""

    thread: str
    ns: str
    id: str | None

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Place:
        """The place that a config names, the root namespace if it names none."""
        named = config["configurable"]
        return cls(
            str(named["thread_id"]), named.get("checkpoint_ns", ""), named.get("checkpoint_id")
        )

    @property
    def config(self) -> dict[str, Any]:
        """The config that names it."""
        named: dict[str, Any] = {"thread_id": self.thread, "checkpoint_ns": self.ns}
        if self.id is not None:
            named["checkpoint_id"] = self.id
        return {"configurable": named}


class Forms:
    """Values as bytes, and back. `serde` is LangGraph's: it has `dumps_typed` and `loads_typed`."""

    def __init__(self, serde: Any) -> None:
        self._serde = serde

    def write(self, pending: Pending) -> tuple[str, str, Any]:
        """What a task wrote to a channel, as LangGraph has it: task, channel and value."""
        write = pending.write
        return pending.task, write.channel, self._serde.loads_typed((write.form, write.data))

    def value(self, body: Body) -> Any:
        """The value of a channel."""
        return self._serde.loads_typed((body.form, body.data))

    def dumps(self, value: Any) -> tuple[str, bytes]:
        """A value as the serialiser makes it: the name of the form, and the bytes."""
        form, data = self._serde.dumps_typed(value)
        return form, bytes(data)

    def typed(self, value: Mapping[str, Any]) -> Typed:
        """A mapping as bytes: the serialiser's where it holds what only that can."""
        try:
            return None, codec.encode(value)
        except PayloadError:
            form, data = self._serde.dumps_typed(value)
            return form, data

    def untyped(self, typed: Typed) -> Any:
        """The mapping that `typed` was given."""
        form, data = typed
        return codec.decode(data) if form is None else self._serde.loads_typed((form, data))
