"""Threads on a store without LangGraph: a serialiser, and what a graph would save."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import foldlog
from foldlog import codec
from foldlog.integrations.langgraph import fencing
from foldlog.integrations.langgraph.forms import Forms, Place
from foldlog.integrations.langgraph.threads import Threads

T = TypeVar("T")

ROOT = Place("trip", "", None)


class Plain:
    """A serialiser that every program has."""

    def dumps_typed(self, value: Any) -> tuple[str, bytes]:
        return "msgpack", codec.encode(value)

    def loads_typed(self, typed: tuple[str, bytes]) -> Any:
        return codec.decode(typed[1])


FORMS = Forms(Plain())


def threads(store: foldlog.Store) -> Threads:
    """The threads of a store, for one process."""
    return Threads(store, FORMS)


async def outside(run: Callable[[], Awaitable[T]]) -> T:
    """Run something that holds no thread: another process would not."""

    async def alone() -> T:
        fencing._tokens.set({})
        return await run()

    return await asyncio.create_task(alone())


def checkpoint(id: str, versions: dict[str, Any] | None = None, **values: Any) -> dict[str, Any]:
    """A checkpoint of which each value is new, in version 1 unless given."""
    of = dict.fromkeys(values, 1) if versions is None else versions
    return {
        "v": 4,
        "id": id,
        "channel_values": values,
        "channel_versions": of,
        "versions_seen": {"node": of},
    }


def step(number: int, value: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """A graph's checkpoint after a step that has changed `messages`, and the new versions."""
    versions = {"messages": f"{number:032}.0.{number:016}"}
    return checkpoint(f"{number:04}", versions, messages=value), versions
