"""Memory: the last saved state of a key (StateStore specification 2.11, sections 6 and 7)."""

from __future__ import annotations

from typing import Any

from foldlog import codec
from foldlog.envelope import draft, upsert_id
from foldlog.store.journal import Journal
from foldlog.views import Consistency
from foldlog_projections import memory


class Memory:
    """Short-term memory by key, as `"{tenant}:{user}:{session}"`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def save_memory_state(self, key: str, state: dict[str, Any]) -> None:
        """Save the state of `key`; the last save stands.

        Raises:
            InvalidId: the key is empty. PayloadError: a part cannot be held.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        subject = self._journal.subject(memory, key)
        body = codec.encode(dict(state), "state")
        await self._journal.append((subject, [draft("memory.saved", body, id=upsert_id(body))]))

    async def load_memory_state(
        self, key: str, *, consistency: Consistency = "session"
    ) -> dict[str, Any] | None:
        """Return the last state of `key`, or None.

        Errors as `Events.load_history`.
        """
        folded = await self._journal.read(memory, key, consistency=consistency)
        if folded.state is None:
            return None
        state: dict[str, Any] = codec.decode(folded.state.payload)
        return state
