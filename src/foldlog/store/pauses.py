"""Pauses: planner state that waits to be resumed, once (specification 2.11, sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from foldlog.store.operation import nothing, operation
from foldlog.store.ownership import Ownership
from foldlog.store.payloads import mapping
from foldlog.store.restoring import restore
from foldlog_projections import pauses
from foldlog_projections.pauses import Pause, PauseConsumed, PauseSaved


class Pauses(Ownership):
    """Pauses by token. They expire by the log's time of the save."""

    @operation(nothing, writes=True)
    async def save_planner_state(
        self, token: str, payload: dict[str, Any], *, session_id: str | None = None
    ) -> None:
        """Save the state under which `token` resumes.

        Saving what was consumed once does not bring it back: a late retry has no effect. Errors
        as `save_event`.

        Args:
            session_id: the session that the pause belongs to, and is cleared with.
        """
        record = PauseSaved(token, self._options.pause_ttl, mapping(payload, "payload"))
        key = pauses.kind(token)
        saved = self.drafts("save_planner_state", key, record)
        await self.append_of_session(session_id, key, saved)

    @operation(nothing)
    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        """Consume the state of `token`: exactly one caller, in any process, gets it.

        Everyone else gets None, as for a token that is missing, expired or consumed. A caller who
        is told AppendUnknown, or is cancelled, may or may not have consumed it. In the past it
        waits for any reader.

        Raises:
            InvalidId: the token is empty.
            LogUnavailable, LogCorrupt, AppendUnknown: see `foldlog.errors`.
        """
        if self.past is not None:
            folded = await self.read(pauses.kind, token, consistency="strong")
            return self._waiting(folded.state)
        taken: dict[str, Any] | None = None

        def consume(pause: Pause) -> Sequence[msgspec.Struct]:
            nonlocal taken
            taken = self._waiting(pause)
            return [PauseConsumed(pause.waiting.id)] if pause.waiting and taken is not None else []

        await self.decide(pauses.kind(token), consume)
        return taken

    def _waiting(self, pause: Pause) -> dict[str, Any] | None:
        """What can be resumed now, if there is anything."""
        if pause.waiting is None:
            return None
        saved = restore(PauseSaved, pause.waiting)
        expired = pause.waiting.recorded_at + saved.ttl <= self.now()
        return None if expired else saved.payload
