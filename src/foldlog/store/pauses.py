"""Pauses: planner state that waits to be resumed, once (specification 2.11, sections 4 and 5)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, Final

from foldlog.envelope import Recorded
from foldlog.errors import AlreadyAnswered, Misuse, NotWaiting, WaitingExpired
from foldlog.kind import Key
from foldlog.models import Answered, Waiting, WaitingKind
from foldlog.store.belonging import append_of_session
from foldlog.store.core import Core
from foldlog.store.decisions import At, Decided, Decisions, decide_drafts
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import encode, finite, mapping
from foldlog.store.primitives import decoded
from foldlog.store.waiting import Ref, began, ended, list_key, on_list, text_in
from foldlog_projections import pauses
from foldlog_projections.pauses import Pause, PauseConsumed, PauseSaved

FOREVER: Final = 100 * 365 * 86_400.0
"""Seconds after which what does not expire does."""

_ASKED: Final = ("reason", "payload", "answer_in")
"""What of a pause's payload a person is shown."""

_Agrees = Callable[[Pause], bool]


class Pauses(Decisions):
    """Pauses by token. They expire `pause_ttl` seconds after the log's time of the save."""

    @operation(nothing, writes=True)
    async def save_planner_state(
        self,
        token: str,
        payload: dict[str, Any],
        *,
        session_id: str | None = None,
        ttl: float | None = None,
    ) -> None:
        """Save the state under which `token` resumes.

        Saving a token that was consumed does not bring it back: a late retry has no effect.

        Args:
            token: names the pause; the caller that loads it resumes.
            payload: the state.
            session_id: the session that the pause belongs to, and is cleared with.
            ttl: seconds until it expires. None: the store's `pause_ttl`.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.

        Examples:
            >>> await store.save_planner_state("token-1", {"step": 3})
            >>> await store.load_planner_state("token-1")
            {'step': 3}
            >>> await store.load_planner_state("token-1") is None
            True
        """
        seconds = self._core.options.pause_ttl if ttl is None else finite(ttl, "ttl")
        record = PauseSaved(token, seconds, mapping(payload, "payload"))
        key = pauses.kind(token)
        saved = subject, [draft] = self._core.drafts("save_planner_state", key, record)
        waits = on_list(self._core, subject.shard, began(_waits_as(token, draft.ts), session_id))
        async with self.atomic():
            await append_of_session(self._core, session_id, key, saved, waits)

    @operation(nothing)
    async def load_planner_state(self, token: str) -> dict[str, Any] | None:
        """Consume a pause and return its state. Exactly one caller, in any process, gets it.

        Every other caller gets None, as for a token that is missing, expired or consumed. A caller
        that gets AppendUnknown, or is cancelled, may or may not have consumed it. In a
        store that only reads, as one of the past, the pause waits for every reader.

        Args:
            token: names the pause.

        Raises:
            InvalidId: the token is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            AppendUnknown: this call may have consumed the pause.
        """
        if self._core.reads_only:
            pause: Pause = (await self._core.read(pauses.kind, token, consistency="strong")).state
            waits = pause.waiting
            if waits is None or _has_expired(self._core, waits):
                return None
            saved: dict[str, Any] = decoded(pauses.kind, waits).payload
            return saved

        def is_there(pause: Pause) -> bool:
            return pause.waiting is not None and not _has_expired(self._core, pause.waiting)

        return await _consume(self._core, token, is_there)


async def _consume(core: Core, token: str, agrees: _Agrees) -> dict[str, Any] | None:
    """Consume what waits and return its state; None if `agrees` says no."""
    key = pauses.kind(token)
    index = list_key(core, core.subject(key.kind, token).shard)

    def decide(at: At) -> dict[Key[Any], Decided]:
        waits = at.folded.state.waiting
        if not agrees(at.folded.state):
            return {}
        consumed = encode(key.kind, PauseConsumed(waits.id))
        return {
            key: Decided([consumed], decoded(key.kind, waits).payload),
            index: Decided([ended(_waits_as(token, waits.ts))]),
        }

    decided = await decide_drafts(core, [key], decide)
    return decided[key].value if key in decided else None


def _expires_at(waits: Recorded) -> float:
    """When a save that waits expires, in Unix seconds."""
    return waits.recorded_at + float(decoded(pauses.kind, waits).ttl)


def _has_expired(core: Core, waits: Recorded) -> bool:
    """Whether a save that waits has expired."""
    return _expires_at(waits) <= core.now()


class PauseSource:
    """Pauses, as the list of all that waits for a person knows them."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def look(self, ref: Ref) -> Waiting | None:
        """See `Source.look`."""
        [token] = ref.keys
        folded = await self._core.read(pauses.kind, token, consistency="strong")
        waits = folded.state.waiting
        if waits is None or _waits_as(token, waits.ts) != ref or _has_expired(self._core, waits):
            return None
        saved: PauseSaved = decoded(pauses.kind, waits)
        expires = dt.datetime.fromtimestamp(_expires_at(waits), dt.UTC)
        payload = _payload(saved)
        about = payload.get("tool_context")
        return Waiting(
            ref.id,
            ref.kind,
            {name: payload[name] for name in _ASKED if name in payload},
            ref.since_time,
            session_id=text_in(about, "session_id"),
            trace_id=text_in(about, "trace_id"),
            task_id=text_in(about, "task_id"),
            until=None if saved.ttl >= FOREVER else expires,
            by=text_in(about, "user_id"),
        )

    async def answer(self, ref: Ref, answer: Any, by: str) -> Answered:
        """See `Source.answer`."""
        [token] = ref.keys

        def agrees(pause: Pause) -> bool:
            waits = pause.waiting
            if waits is None or _waits_as(token, waits.ts) != ref:
                raise AlreadyAnswered(ref.id, "consumed") if pause.spent else NotWaiting(ref.id)
            if _has_expired(self._core, waits):
                raise WaitingExpired(ref.id, _expires_at(waits))
            where = _payload(decoded(pauses.kind, waits)).get("answer_in")
            if where is not None:
                raise Misuse(
                    f"{ref.id} is a framework's request, and only the framework can go on: answer"
                    f" in {where!s:.200}. It waits until then"
                )
            return True

        return Answered(ref.id, ref.kind, "consumed", await _consume(self._core, token, agrees))


def _payload(saved: PauseSaved) -> dict[str, Any]:
    payload = saved.payload  # `redact=` may have replaced all of it
    return payload if isinstance(payload, dict) else {"payload": payload}


def _waits_as(token: str, ts: float) -> Ref:
    """What a pause that was saved then is called in the list of all that waits."""
    return Ref.at(WaitingKind.PAUSE, ts, token)
