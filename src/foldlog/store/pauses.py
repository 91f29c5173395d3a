"""Pauses: planner state that waits to be resumed, once (specification 2.11, sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from foldlog.envelope import Draft, Recorded
from foldlog.store.guards import drafting, restoring
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import load, mapping
from foldlog.store.primitives import Primitives
from foldlog.subjects import Subject
from foldlog_projections import pauses
from foldlog_projections.pauses import Pause, PauseConsumed, PauseSaved


class Pauses(Primitives):
    """Pauses by token. They expire by the log's time of the save."""

    @operation(nothing, writes=True)
    async def save_planner_state(self, token: str, payload: dict[str, Any]) -> None:
        """Save the state under which `token` resumes.

        Saving what was consumed once does not bring it back: a late retry has no effect.

        Raises:
            InvalidId: the token is empty. PayloadError: a part cannot be held.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        await self.append_drafts(self._pause_drafted(token, payload))

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
            waiting = self._waiting(folded.state)
            return None if waiting is None else _saved(waiting).payload
        taken: dict[str, Any] | None = None

        def consume(pause: Pause) -> Sequence[msgspec.Struct]:
            nonlocal taken
            waiting = self._waiting(pause)
            taken = None if waiting is None else _saved(waiting).payload
            return [] if waiting is None else [PauseConsumed(waiting.id)]

        await self.decide(pauses.kind(token), consume)
        return taken

    def _waiting(self, pause: Pause) -> Recorded | None:
        """The save that can be resumed now, if there is one."""
        waiting = pause.waiting
        if waiting is None or waiting.recorded_at + _saved(waiting).ttl <= self.now():
            return None
        return waiting

    @drafting("payload")
    def _pause_drafted(self, token: str, payload: dict[str, Any]) -> tuple[Subject, list[Draft]]:
        subject = self.subject(pauses.kind, token)
        record = PauseSaved(token, self._options.pause_ttl, mapping(payload, "payload"))
        return subject, [self.drafted("save_planner_state", pauses.kind(token), record)]


@restoring
def _saved(item: Recorded) -> PauseSaved:
    return load(PauseSaved, item.payload)
