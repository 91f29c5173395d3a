"""Memory: the last saved state of a key (StateStore specification 2.11, sections 6 and 7)."""

from __future__ import annotations

from typing import Any

from foldlog.envelope import Recorded
from foldlog.store.belonging import append_of_session
from foldlog.store.core import Capability
from foldlog.store.operation import nothing, operation
from foldlog.store.ownership import lineage_of, origin_log
from foldlog.store.payloads import mapping
from foldlog.store.restoring import restore
from foldlog.views import Consistency, refold
from foldlog_projections import memory
from foldlog_projections.memory import MemorySaved


class Memory(Capability):
    """Short-term memory by key, `"{tenant}:{user}:{session}"`: it belongs to that session."""

    @operation(nothing, writes=True)
    async def save_memory_state(self, key: str, state: dict[str, Any]) -> None:
        """Save the state of a key. The last save stands.

        Args:
            key: "{tenant}:{user}:{session}"; the memory is erased with that session.
            state: the whole state.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
        """
        of = memory.kind(key)
        saved = self._core.drafts("save_memory_state", of, MemorySaved(mapping(state, "state")))
        await append_of_session(self._core, memory.session_of(key), of, saved)

    @operation(nothing)
    async def load_memory_state(
        self, key: str, *, consistency: Consistency = "session"
    ) -> dict[str, Any] | None:
        """Return the last state of a key, or None. A fork reads its origin's until it saves one.

        Args:
            key: as it was saved.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        folded = await self._core.read(memory.kind, key, consistency=consistency)
        saved = folded.state
        if saved is None and not folded.cleared_at:
            saved = await self._origins(key, consistency)
        return None if saved is None else restore(MemorySaved, saved).state

    async def _origins(self, key: str, consistency: Consistency) -> Recorded | None:
        """What a fork shares: the last state of its origin's memory, up to the fork."""
        while session_id := memory.session_of(key):
            origin = (await lineage_of(self._core, session_id, consistency)).shared
            if origin is None:
                break
            key = memory.key_in(key, origin.session_id)
            subject = self._core.subject(memory.kind, key)
            folded = await refold(origin_log(self._core, origin), memory.kind, subject)
            if folded.state is not None or folded.cleared_at:
                return folded.state
        return None
