"""Which turns are stored together. Nothing is stored here.

A turn is one agent's handling of one message. What it sends and waits for is part of it, and so
are the agents that answer. Two turns that come to touch the same agent that way cannot be
separated in its state: they become one unit, which is complete when all of it is.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from foldlog.integrations.autogen.posts import Post


@dataclass(slots=True, eq=False)
class Unit:
    """What is stored in one moment.

    `running` counts handlers at work, `agents` are those touched, by id; `handled` are pairs of a
    message's and an agent's id; `outbox` are messages that leave when it is stored. `parts` have
    become part of it, as it has of `joined`, if that is set. `is_closed`: it is being stored, and
    takes nothing in any more.
    """

    running: int = 0
    agents: dict[str, Any] = field(default_factory=dict)
    handled: list[tuple[str, str]] = field(default_factory=list)
    outbox: list[Post] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    is_cut_short: bool = False
    is_closed: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    parts: list[Unit] = field(default_factory=list)
    joined: Unit | None = None

    @property
    def whole(self) -> Unit:
        """The unit that this one has become part of, or itself."""
        unit = self
        while unit.joined is not None:
            unit = unit.joined
        return unit


class Units:
    """The units that are not complete, by the agents they touch."""

    def __init__(self) -> None:
        self._by_agent: dict[str, Unit] = {}

    def of(self, agent_id: str) -> Unit | None:
        """The unit that touches an agent now, if there is one."""
        unit = self._by_agent.get(agent_id)
        return None if unit is None else unit.whole

    async def touch(self, unit: Unit, agent_id: str, agent: Any) -> None:
        """Have a unit touch an agent: it becomes one with the unit that touches it now."""
        while (other := self.of(agent_id)) is not None and other.is_closed:
            await other.ended.wait()
        unit = unit.whole
        if other is not None and other is not unit:
            unit.running += other.running
            unit.agents |= other.agents
            unit.handled += other.handled
            unit.outbox += other.outbox
            unit.labels += other.labels
            unit.is_cut_short = unit.is_cut_short or other.is_cut_short
            unit.parts.append(other)
            other.joined = unit
        unit.agents[agent_id] = agent
        self._by_agent[agent_id] = unit

    def end(self, unit: Unit) -> None:
        """Let go of a unit: the next turns of its agents may begin."""
        for agent_id in unit.agents:
            if self.of(agent_id) is unit:
                del self._by_agent[agent_id]
        _end(unit)


def _end(unit: Unit) -> None:
    unit.ended.set()
    for part in unit.parts:
        _end(part)
