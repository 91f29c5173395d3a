"""Memory: the last saved state of a key (StateStore specification 2.11, sections 6 and 7)."""

from __future__ import annotations

from typing import Any

from foldlog import codec
from foldlog.envelope import Draft, Recorded, draft, upsert_id
from foldlog.store.guards import drafting, restoring
from foldlog.store.journal import Journal
from foldlog.store.payloads import mapping
from foldlog.subjects import Subject
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
        await self._journal.append(self._drafted(key, state))

    @drafting("state")
    def _drafted(self, key: str, state: dict[str, Any]) -> tuple[Subject, list[Draft]]:
        subject = self._journal.subject(memory, key)
        body = codec.encode(mapping(state, "state"), "state")
        return subject, [draft("memory.saved", body, id=upsert_id(body))]

    async def load_memory_state(
        self, key: str, *, consistency: Consistency = "session"
    ) -> dict[str, Any] | None:
        """Return the last state of `key`, or None.

        Errors as `Events.load_history`.
        """
        folded = await self._journal.read(memory, key, consistency=consistency)
        if folded.state is None:
            return None
        return _state(folded.state)


@restoring
def _state(item: Recorded) -> dict[str, Any]:
    state: dict[str, Any] = codec.decode(item.payload)
    return state
