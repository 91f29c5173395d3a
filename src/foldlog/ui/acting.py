"""What `/api/` does on a POST: answer, steer, fork, and say what one thinks of a trace."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from foldlog.bounds import Refused
from foldlog.errors import Misuse
from foldlog.models import Answered, SteeringEvent, SteeringEventType, StoredEvent, WaitingKind
from foldlog.opening import Store
from foldlog.steering import validate_steering_event
from foldlog.ui import asked
from foldlog.ui.plain import Plain
from foldlog.ui.reading import answer


class Acting:
    """Handlers that write. Who asked is recorded with what they did."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def answer(self, request: Request) -> Response:
        """Answer what waits; exactly one caller decides."""
        body = await asked.body(request)
        id, given = body.text("id"), body.any("answer")
        session = body.optional("session")
        answered = await self._answer(id, given, session, _user(request))
        return answer(
            {
                "id": answered.id,
                "decision": answered.decision,
                "state": Plain().value(answered.state),
            }
        )

    async def _answer(self, id: str, given: Any, session: str | None, user: str) -> Answered:
        """Answer, and say who did: one append, where the session and what waits share a shard."""

        async def both() -> Answered:
            answered = await self._store.answer(id, given, by=user)
            if session is not None:
                said = {"id": id, "decision": answered.decision, "by": user}
                if answered.kind is WaitingKind.QUESTION:
                    said["answer"] = given
                await self._note(session, "ui.answered", said)
            return answered

        try:
            return await self._store.transact(both)
        except Misuse:  # they are on several shards
            return await both()

    async def steer(self, request: Request) -> Response:
        """Put a steering event on record, and let it take effect."""
        body = await asked.body(request)
        try:
            type_ = SteeringEventType(body.text("event_type"))
        except ValueError:
            known = ", ".join(SteeringEventType)
            raise Refused(400, f"event_type is one of {known}") from None
        session = body.text("session_id")
        event = SteeringEvent(
            session_id=session,
            task_id=body.text("task_id"),
            event_type=type_,
            payload=body.mapping("payload") | {"by": _user(request)},
            trace_id=body.optional("trace_id"),
        )
        validate_steering_event(event)
        async with self._store.session(session) as opened:
            took_effect = await opened.steer(event)
        return answer({"event_id": event.event_id, "took_effect": took_effect})

    async def fork(self, request: Request) -> Response:
        """Begin a session that goes on from a moment of another one."""
        body = await asked.body(request)
        origin, at = body.text("session_id"), body.optional("at")
        made = await self._store.fork(origin, at=asked.moment(at), to=body.optional("to"))
        await self._note(made, "ui.forked", {"origin": origin, "at": at, "by": _user(request)})
        return answer({"session_id": made}, 201)

    async def feedback(self, request: Request) -> Response:
        """Keep an opinion of a trace."""
        body = await asked.body(request)
        await self._store.save_feedback(
            body.text("trace_id"),
            score=body.score("score"),
            comment=body.optional("comment"),
            author=_user(request),
        )
        return answer({"saved": True}, 201)

    async def _note(self, session_id: str, kind: str, payload: dict[str, Any]) -> None:
        """Who did it, in the session's audit trail: what the store's own records do not name."""
        trace = f"session:{session_id}"
        event = StoredEvent(trace, time.time(), kind, None, None, payload)
        await self._store.save_event(event)


def _user(request: Request) -> str:
    return str(request.scope["foldlog.user"])
