"""Memory: the last saved state of a key (StateStore specification 2.11, sections 6 and 7)."""

from __future__ import annotations

from typing import Any

from foldlog.envelope import Draft, Recorded
from foldlog.store.guards import drafting, restoring
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import load, mapping
from foldlog.store.primitives import Primitives
from foldlog.subjects import Subject
from foldlog.views import Consistency
from foldlog_projections import memory
from foldlog_projections.memory import MemorySaved


class Memory(Primitives):
    """Short-term memory by key, as `"{tenant}:{user}:{session}"`."""

    @operation(nothing, writes=True)
    async def save_memory_state(self, key: str, state: dict[str, Any]) -> None:
        """Save the state of `key`; the last save stands.

        Raises:
            InvalidId: the key is empty. PayloadError: a part cannot be held.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        await self.append_drafts(self._memory_drafted(key, state))

    @operation(nothing)
    async def load_memory_state(
        self, key: str, *, consistency: Consistency = "session"
    ) -> dict[str, Any] | None:
        """Return the last state of `key`, or None.

        Raises:
            InvalidId: the key is empty. LogUnavailable, LogCorrupt: it could not be read.
        """
        folded = await self.read(memory.kind, key, consistency=consistency)
        return None if folded.state is None else _state(folded.state)

    @drafting("state")
    def _memory_drafted(self, key: str, state: dict[str, Any]) -> tuple[Subject, list[Draft]]:
        record = MemorySaved(mapping(state, "state"))
        subject = self.subject(memory.kind, key)
        return subject, [self.drafted("save_memory_state", memory.kind(key), record)]


@restoring
def _state(item: Recorded) -> dict[str, Any]:
    state: dict[str, Any] = load(MemorySaved, item.payload).state
    return state
