"""Pauses: planner state that waits to be resumed, once (specification 2.11, sections 4 and 5)."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.envelope import Draft, Recorded, draft, upsert_id
from foldlog.errors import AppendConflict
from foldlog.store.guards import drafting, restoring
from foldlog.store.journal import Journal
from foldlog.store.payloads import PauseSaved, dump, load, mapping
from foldlog.subjects import Subject
from foldlog_projections import pauses

_CONTENTION_PAUSE: Final = 0.002
"""Seconds to let the write that a server saw in flight settle before looking again."""


class Pauses:
    """Pauses by token. `ttl` in seconds, counted from the log's time of the save."""

    def __init__(self, journal: Journal, *, ttl: float) -> None:
        self._journal = journal
        self._ttl = ttl

    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        """Save the state under which `token` resumes.

        Saving what was consumed once does not bring it back: a late retry has no effect.

        Raises:
            InvalidId: the token is empty. PayloadError: a part cannot be held.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        await self._journal.append(self._drafted(token, payload))

    @drafting("payload")
    def _drafted(self, token: str, payload: dict[str, Any]) -> tuple[Subject, list[Draft]]:
        subject = self._journal.subject(pauses, token)
        state = codec.encode(mapping(payload, "payload"), "payload")
        body = dump(PauseSaved(token=token, ttl=self._ttl, payload=msgspec.Raw(state)))
        return subject, [draft("pause.saved", body, id=upsert_id(state))]

    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        """Consume the state of `token`: exactly one caller, in any process, gets it.

        Everyone else gets None, as for a token that is missing, expired or consumed. A caller who
        is told AppendUnknown, or is cancelled, may or may not have consumed it. In the past it
        waits for whoever asks.

        Raises:
            InvalidId: the token is empty.
            LogUnavailable, LogCorrupt, AppendUnknown: see `foldlog.errors`.
        """
        subject = self._journal.subject(pauses, token)
        while True:
            # 1. Read, strongly. 2. Append the consumption where the reading ended. 3. Whoever's
            # append the log accepts has won; the others read again, and find it consumed.
            folded, head = await self._journal.read_at(pauses, token)
            waiting = folded.state.waiting
            if waiting is None:
                return None
            saved = _saved(waiting)
            if waiting.recorded_at + saved.ttl <= self._journal.now():
                return None
            state: dict[str, Any] = saved.payload
            if self._journal.past is not None:
                return state
            body = codec.encode({"consumed": waiting.id})
            consumed = draft(pauses.CONSUMED, body, id=upsert_id(body))
            try:
                await self._journal.compare_and_append(subject, [consumed], head)
            except AppendConflict as conflict:
                if conflict.actual is None:
                    await asyncio.sleep(_CONTENTION_PAUSE)
                continue
            return state


@restoring
def _saved(item: Recorded) -> PauseSaved:
    return load(PauseSaved, item.payload)
