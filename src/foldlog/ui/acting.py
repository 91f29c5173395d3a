"""What `/api/` does on a POST: answer, steer, fork, judge a trace, and operate queues."""

from __future__ import annotations

import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from foldlog.bounds import Refused
from foldlog.errors import Misuse
from foldlog.models import Answered, SteeringEvent, SteeringEventType, StoredEvent, WaitingKind
from foldlog.opening import Store
from foldlog.runs import Handle
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
                await self._note(f"session:{session}", "ui.answered", said)
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
        said = {"origin": origin, "at": at, "by": _user(request)}
        await self._note(f"session:{made}", "ui.forked", said)
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

    async def queue(self, request: Request) -> Response:
        """Start a run, pause a queue or let it go on, send a failed run again, end a schedule."""
        body = await asked.body(request)
        doing, name, queues = body.text("doing"), body.text("name"), self._store.queues
        trail, made = f"queue:{name}", dict[str, str]()
        match doing:
            case "start":
                options: dict[str, Any] = {
                    each: body.optional(each) for each in ("id", "session_id")
                }
                given = body.mapping("arguments")
                if taken := options.keys() & given.keys():
                    raise Refused(400, f"{min(taken)} is no argument of a durable function")
                run: Handle[Any] = await self._store.start(name, **options, **given)
                made = {"session_id": run.session_id, "id": run.id}
                trail = f"session:{run.session_id}"
            case "pause":
                await queues.pause(name)
            case "resume":
                await queues.resume(name)
            case "send-again":
                session = body.optional("session_id") or name
                await queues.send_again(name, session_id=session)
                trail = f"session:{session}"
            case "unschedule":
                await queues.unschedule(name)
                trail = f"schedule:{name}"
            case _:
                raise Refused(400, f"doing is one of {', '.join(asked.DOING)}")
        await self._note(trail, "ui.queue", {"doing": doing, "name": name, "by": _user(request)})
        return answer({"done": True, **made})

    async def _note(self, trace: str, kind: str, payload: dict[str, Any]) -> None:
        """Who did it, in an audit trail: what the store's own records do not name."""
        event = StoredEvent(trace, time.time(), kind, None, None, payload)
        await self._store.save_event(event)


def _user(request: Request) -> str:
    return str(request.scope["foldlog.user"])
