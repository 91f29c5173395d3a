"""Memory: the last saved state of a key (StateStore specification 2.11, sections 6 and 7)."""

from __future__ import annotations

from typing import Any

from foldlog.store.belonging import append_of_session
from foldlog.store.core import Capability
from foldlog.store.operation import nothing, operation
from foldlog.store.ownership import state_of
from foldlog.store.payloads import mapping
from foldlog.store.primitives import decoded
from foldlog.views import Consistency
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
        saved = await state_of(self._core, memory.kind(key), consistency)
        return None if saved is None else decoded(memory.kind, saved).state
