"""Checkpoints as agent state: one scope, a key an agent, a turn a checkpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from pydantic import BaseModel

from foldlog.agents import AgentStates, KeyChange
from foldlog.agents.opening import NoRuntimeState
from foldlog.errors import NotFound
from foldlog.opening import Store

_SCOPE: Final = "checkpoints"


class Checkpoint(NamedTuple):
    """A point to go on from. `version` names it, `ts` is the writer's clock in Unix seconds.

    `changed`: what is another than in the checkpoint before it.
    """

    version: int
    ts: float
    label: str
    changed: tuple[str, ...]


class Saved(BaseModel):
    """What one agent, or the adapter, has saved: plain data."""

    state_type: ClassVar[str] = "foldlog.autogen.Saved"

    state: dict[str, Any]


class Checkpoints:
    """The checkpoints of one run, by its id. One process at a time writes them.

    Args:
        run_id: what the run is found by in another process.
    """

    def __init__(self, store: Store, run_id: str) -> None:
        self.run_id = run_id
        self._states: AgentStates[NoRuntimeState] = store.agents.repository.create_manager(
            NoRuntimeState, name=f"autogen/{run_id}"
        )
        self._version = 0
        self._doubtful: Mapping[str, Mapping[str, Any]] | None = None
        self._last_save: asyncio.Task[None] | None = None

    async def list(self) -> list[Checkpoint]:
        """Return the checkpoints, in order. It reads the history of the run.

        Raises:
            LogUnavailable, LogCorrupt: it could not be read.
        """
        return [
            Checkpoint(found.version, found.ts, found.label, found.keys)
            for found in await self._states.history(_SCOPE)
        ]

    async def compare(self, old: Checkpoint, new: Checkpoint) -> tuple[KeyChange, ...]:
        """Return what differs between two checkpoints, agent by agent. Errors as `list`."""
        return await self._states.compare(_SCOPE, old.version, new.version)

    async def load(self, checkpoint: Checkpoint | None = None) -> dict[str, dict[str, Any]]:
        """Return what a checkpoint holds, by key; of the last one, if none is given.

        Errors as `list`.
        """
        version = None if checkpoint is None else checkpoint.version
        states = await self._states.get_agent_states(_SCOPE, Saved, version=version)
        return {key: entry.state.state for key, entry in states.items()}

    async def _take_up(self, checkpoint: Checkpoint | None) -> dict[str, dict[str, Any]] | None:
        """Go on from a checkpoint: from now on it is what the next one follows."""
        history = await self.list()
        self._version = history[-1].version if history else 0
        if checkpoint is None:
            return await self.load() if history else None
        if all(checkpoint.version != known.version for known in history):
            raise NotFound("checkpoint", str(checkpoint), f"of run {self.run_id!r:.80}")
        states = await self.load(checkpoint)
        gone = set(await self.load()) - set(states)
        await self._save(states, f"resumed from {checkpoint.version}", gone)
        return states

    async def _save(
        self, states: Mapping[str, Mapping[str, Any]], label: str, gone: set[str] | None = None
    ) -> None:
        """Append a checkpoint, if anything in it is new.

        Raises:
            AppendConflict: another process writes the checkpoints of this run. Others as
                `TurnStateContext.complete`.
        """
        begun = self._append(self._last_save, states, label, gone or set())
        self._last_save = asyncio.create_task(begun)
        # It ends also where its caller is cancelled: the next one has to know the version.
        await asyncio.shield(self._last_save)

    async def _end_save(self) -> None:
        """Wait until the append under way has ended, whatever comes of it."""
        if self._last_save is not None:
            await asyncio.wait([self._last_save])

    async def _append(
        self,
        previous: asyncio.Task[None] | None,
        states: Mapping[str, Mapping[str, Any]],
        label: str,
        gone: set[str],
    ) -> None:
        if previous is not None:
            await asyncio.wait([previous])
        await self._settle()
        self._doubtful = states
        async with self._states.turn(_SCOPE, label=label, expected=self._version) as ctx:
            for key, state in states.items():
                ctx.update(key, Saved(state=dict(state)))
            for key in gone:
                ctx.delete(key)
        self._doubtful = None
        self._version = self._version if ctx.version is None else ctx.version

    async def _settle(self) -> None:
        """Find out what became of a checkpoint whose ack was lost: it is what the log has next."""
        if self._doubtful is None:
            return
        newer = [found for found in await self.list() if found.version > self._version]
        if newer and self._doubtful.items() <= (await self.load(newer[0])).items():
            self._version = newer[0].version
        self._doubtful = None
