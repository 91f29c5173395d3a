"""The reference: what a store owes its readers, in plain dicts and lists."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any


def latest(items: list[Any], limit: int) -> list[Any]:
    """The last `limit` items; none for a limit below one."""
    return items[-limit:] if limit > 0 else []


@dataclass
class Feed:
    """A list that keeps each id once, until it is cleared."""

    items: list[tuple[str, Any]] = field(default_factory=list)
    known: set[Hashable] = field(default_factory=set)

    def save(self, id_: str, item: Any, key: Hashable = None) -> None:
        key = id_ if key is None else key
        if key not in self.known:
            self.known.add(key)
            self.items.append((id_, item))

    def clear(self) -> None:
        self.items = []
        self.known = set()

    def read(self, task_id: str | None, since_id: str | None, limit: int) -> list[Any]:
        ids = [id_ for id_, _ in self.items]
        start = ids.index(since_id) + 1 if since_id in ids else None
        found = [
            item
            for _, item in self.items[start or 0 :]
            if task_id is None or item.task_id == task_id
        ]
        return latest(found, limit) if start is None else found[: max(limit, 0)]


@dataclass
class Upserts:
    """The last value of each key, in order of first save."""

    values: dict[str, Any] = field(default_factory=dict)

    def save(self, key: str, value: Any) -> None:
        self.values[key] = value

    def clear(self) -> None:
        self.values = {}


@dataclass
class Session:
    """What belongs to one session. `traces` lists the trace saved last at the end."""

    tasks: Upserts = field(default_factory=Upserts)
    updates: Feed = field(default_factory=Feed)
    steering: Feed = field(default_factory=Feed)
    trajectories: Upserts = field(default_factory=Upserts)
    traces: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        kept = (
            self.tasks.values,
            self.updates.items,
            self.steering.items,
            self.trajectories.values,
        )
        return not any(kept)


@dataclass
class Pause:
    """A payload that waits, and the contents that were taken before."""

    waiting: Any = None
    offered: set[Hashable] = field(default_factory=set)
    spent: set[Hashable] = field(default_factory=set)


class Model:
    """Every capability of the store, without a log."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = defaultdict(Session)
        self.events: dict[str, Feed] = defaultdict(Feed)
        self.planner_events: dict[str, Feed] = defaultdict(Feed)
        self.memory: dict[str, Any] = {}
        self.pauses: dict[str, Pause] = defaultdict(Pause)

    def history(self, trace_id: str) -> list[Any]:
        return sorted((event for _, event in self.events[trace_id].items), key=lambda e: e.ts)

    def save_trajectory(self, trace_id: str, session_id: str, value: Any) -> None:
        session = self.sessions[session_id]
        session.trajectories.save(trace_id, value)
        session.traces = [t for t in session.traces if t != trace_id] + [trace_id]

    def save_pause(self, token: str, payload: Any, content: Hashable) -> None:
        pause = self.pauses[token]
        if content not in pause.spent:
            pause.offered.add(content)
            pause.waiting = payload

    def take_pause(self, token: str) -> Any:
        pause = self.pauses[token]
        taken, pause.waiting = pause.waiting, None
        if taken is not None:
            pause.spent |= pause.offered
            pause.offered = set()
        return taken

    def clear_session(self, session_id: str) -> None:
        session = self.sessions[session_id]
        for trace_id in session.traces:
            self.events[trace_id].clear()
            self.planner_events[trace_id].clear()
        session.traces = []
        for part in (session.tasks, session.updates, session.steering, session.trajectories):
            part.clear()

    def session_names(self) -> list[str]:
        return sorted(name for name, session in self.sessions.items() if not session.is_empty)

    def trace_names(self) -> Iterable[str]:
        return {*self.events, *self.planner_events}
