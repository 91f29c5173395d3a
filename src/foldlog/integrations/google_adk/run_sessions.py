"""Sessions of ADK in runs: each event is stored once, however often the run is done again.

@foldlog.durable
async def travel(run: foldlog.Run, prompt: str) -> str:
    runner = Runner(
        app_name="travel", agent=agent_in(run, agent), session_service=sessions_in(run)
    )
    events = await runner.run_debug(prompt, quiet=True)
    return events[-1].content.parts[0].text
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events.event import Event
from google.adk.sessions import Session

from foldlog.integrations.google_adk.sessions import FoldlogSessionService, session_id_of
from foldlog.integrations.google_adk.states import time_of
from foldlog.runs import Run
from foldlog_projections.langgraph.langgraphitems import path_of
from foldlog_projections.messages import Message


def sessions_in(run: Run) -> FoldlogSessionService:
    """Return a session service for agents that `agent_in` makes the steps of a run.

    Conversations are stored as `FoldlogSessionService` stores them, and anybody reads them there.
    In each execution of the run a session first is as it was when the run began, with what others
    have added since. An event that an earlier execution has stored is not stored again, and keeps
    its time and its invocation id. So is a session that it has created: creating it again returns
    it. Events get ids after the run, their author and their branch.

    The run has errors on record, and the results of tools beside one that raised: events that have
    no more than these are not stored.

    Args:
        run: an open run, of `store.run` or a worker. The service lasts as long as it.

    The methods of what it returns raise as those of `FoldlogSessionService`.
    """
    return _SessionsIn(run)


class _SessionsIn(FoldlogSessionService):
    """The sessions of one execution of a run."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.store)
        self._run = run
        self._counts = Counter[str]()
        self._times: dict[str, float] = {}
        """When the run's events happened that this execution has not come to yet, by id."""
        self._said: set[str] = set()
        self._created: set[str] = set()
        self._invocations: dict[str, str] = {}
        """What the invocations of this execution are called in the log, by ADK's id."""

    async def create_session(self, *, session_id: str | None = None, **given: Any) -> Session:
        """As the class above."""
        id = (session_id or "").strip() or self._next(f"{path_of(self._names)}/session")
        try:
            return await super().create_session(session_id=id, **given)
        except AlreadyExistsError:
            ids = {name: given[name] for name in ("app_name", "user_id")}
            found = await self.get_session(session_id=id, **ids)
            if found is None or session_id_of(session_id=id, **ids) not in self._created:
                raise
            return found

    async def append_event(self, session: Session, event: Event) -> Event:
        """As the class above."""
        if (event.error_code and not event.content) or _is_cut_short(session, event):
            return event
        return await super().append_event(session, event)

    def _began_id(self, session_id: str) -> str:
        return f"{self._base(session_id)}/began"

    def _body_of(self, session_id: str, event: Event) -> dict[str, Any]:
        base = self._base(session_id)
        if not event.id.startswith(f"{base}/event/"):
            event.id = self._next(f"{base}/event/{path_of([event.author, event.branch or ''])}")
        event.timestamp = self._times.pop(event.id, event.timestamp)
        self._said.add(event.id)
        invocation = event.invocation_id
        if not invocation.startswith(f"{base}/invocation/"):
            if invocation not in self._invocations:
                self._invocations[invocation] = self._next(f"{base}/invocation")
            invocation = self._invocations[invocation]
        return super()._body_of(session_id, event) | {"invocation_id": invocation}

    def _seen(self, session_id: str, messages: list[Message]) -> list[Message]:
        if messages[0].id == self._began_id(session_id):
            self._created.add(session_id)
        base = f"{self._base(session_id)}/event/"
        mine = {m.id: m for m in messages if m.id.startswith(base) and m.id not in self._said}
        self._times |= {id: time for id, m in mine.items() if (time := time_of(m)) is not None}
        return [each for each in messages if each.id not in mine]

    @property
    def _names(self) -> list[str]:
        return [self._run.session_id, self._run.name]

    def _base(self, session_id: str) -> str:
        """What the run's ids begin with. A fork of its own session has the same ones."""
        session, name = self._names
        return path_of(["run", session if session != session_id else "", name])

    def _next(self, what: str) -> str:
        self._counts[what] += 1
        return f"{what}/{self._counts[what]}"


def _is_cut_short(session: Session, event: Event) -> bool:
    """Whether an event answers some of the calls that the model made at once, and others are open.

    ADK appends it where a tool has raised, before the error ends the execution.
    """
    answered = {each.id for each in event.get_function_responses()}
    for earlier in reversed(session.events) if answered else ():
        calls = {each.id for each in earlier.get_function_calls()}
        if calls & answered:
            return bool(calls - answered - (earlier.long_running_tool_ids or set()))
        answered |= {each.id for each in earlier.get_function_responses()}
    return False
