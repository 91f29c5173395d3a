"""ADK's sessions: events are messages of a foldlog session, with the state that they change.

The contract is `google.adk.sessions.BaseSessionService` of ADK 2; what it leaves open is as in
ADK's `DatabaseSessionService`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.platform import time as adk_time
from google.adk.sessions import BaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from foldlog.errors import shown
from foldlog.integrations.access import AnyStore, access_to
from foldlog.integrations.google_adk.calls import Calls, call_ids, end_waiting
from foldlog.integrations.google_adk.states import (
    BEGAN,
    FORMAT,
    SUMMARY,
    Summary,
    delta_of,
    own_part,
    shared_states,
    time_of,
)
from foldlog.integrations.objects import read_as
from foldlog.kind import Key
from foldlog.opening import Store
from foldlog.subjects import checked_id
from foldlog_projections.google_adk.adkstates import APP, StateChanged, kind as states, of_user
from foldlog_projections.langgraph.langgraphitems import labels_of, path_of
from foldlog_projections.messages import (
    MAIN,
    Conversation,
    Conversations,
    Message,
    kind as said,
)


def session_id_of(app_name: str, user_id: str, session_id: str) -> str:
    """Return the id of the foldlog session: `app/user/session`, with `%` and `/` escaped.

    Args:
        app_name: ADK's.
        user_id: ADK's.
        session_id: ADK's.

    Raises:
        InvalidId: one of them is empty, no string, or no valid Unicode.
    """
    names = {"app_name": app_name, "user_id": user_id, "session_id": session_id}
    return path_of([checked_id(each, name) for name, each in names.items()])


class FoldlogSessionService(BaseSessionService):  # type: ignore[misc, unused-ignore]
    """ADK's session service on a foldlog store, in place of `DatabaseSessionService`.

    Lives as long as its store, which it does not close. An event and all that it changes are one
    append; appending it again has no effect. Reads of a session see all that was acked to anyone.

    Args:
        store: an open store, blocking or not; or one of the past (`store.at(...)`), for reading.

    Every method may raise, beside ADK's own errors,
        InvalidId, PayloadError: an id is empty, or a part of what is to be saved cannot be held.
        LogUnavailable, LogCorrupt, AppendFailed, AppendUnknown: trying again is safe.
        Misuse: an `app:` or `user:` key was written where the namespace has several
            shards: it would not be one append with the event. Nothing was saved.
    """

    def __init__(self, store: AnyStore) -> None:
        self._access = access_to(store)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session and return it; without an id it gets one. An id is stripped of spaces.

        Raises:
            AlreadyExistsError: the user has a session of that id.
        """
        id = (session_id.strip() if session_id else "") or Event.new_id()
        now = adk_time.get_time()
        session = Session(app_name=app_name, user_id=user_id, id=id, last_update_time=now)
        # As an event would change it: ADK says what becomes of values that are no JSON.
        delta = EventActions(state_delta=state or {}).model_dump(mode="json")["state_delta"]
        body = {"state": own_part(delta), "last_update_time": now}
        key = _key(session)
        began = Message(self._began_id(key.keys[0]), BEGAN, body)

        def begin(found: Conversations) -> Mapping[Any, Any]:
            if found[MAIN]:
                raise AlreadyExistsError(f"Session with id {id} already exists.")
            session._storage_update_marker = f"{began.id}:{found[MAIN].version + 1}"
            return {key: [began], **_shared(session, delta)}

        async def create(store: Store) -> Session:
            await store.decide([key], begin, copy=False)
            session.state = {**body["state"], **await shared_states(store, session, "session")}
            return session

        return await self._access.acall(create)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with the events that `config` asks for, oldest first, or None."""
        session = Session(app_name=app_name, user_id=user_id, id=session_id.strip())
        wanted = config or GetSessionConfig()
        return await self._access.acall(lambda store: _load(store, session, wanted, self._seen))

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of a user, or of all, by last use, without events.

        The cost grows with the number of sessions in the store; of those that it returns, a
        process folds the state once, and then what is added.
        """

        async def load(store: Store) -> list[Session]:
            names = [labels_of(key.keys[0]) for key in await store.keys(said)]
            sessions = [
                Session(app_name=app_name, user_id=each[1], id=each[2])
                for each in names
                if len(each) == 3 and each[0] == app_name and user_id in (None, each[1])
            ]
            users = {each.user_id: each for each in sessions}
            shared = {
                user: await shared_states(store, each, "strong") for user, each in users.items()
            }
            keys = [SUMMARY(_key(each).keys[0]) for each in sessions]
            found = await store.views(keys, consistency="strong")
            listed = [pair for pair in zip(sessions, found, strict=True) if pair[1].first]
            for session, each in listed:
                session._storage_update_marker = f"{each.first}:{each.version}"
                each.fill(session, shared[session.user_id])
            return [session for session, _ in listed]

        sessions = await self._access.acall(load)
        sessions.sort(key=lambda each: (each.last_update_time, each.user_id, each.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with its state. Fine if there is none.

        As with ADK's own services, artifacts and memories stay. `Store.erase_session` with
        `session_id_of(...)` removes all, and leaves no bytes in files.

        Raises:
            SessionHasForks: sessions that were forked from it share it. Nothing was deleted.
        """
        key = said(session_id_of(app_name, user_id, session_id.strip()))

        async def delete(store: Store) -> None:
            await store.erase(key, overwrite=False)
            await end_waiting(store, key.keys[0])

        await self._access.acall(delete)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return what is stored under `user:` for a user, by keys without the prefix."""
        key = states(app_name, of_user(user_id))
        shared = await self._access.acall(lambda store: store.view(key, consistency="strong"))
        return dict(shared)

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event, and give it to `session`. A partial one is returned as it is.

        Raises:
            StaleSessionError: others have appended since the session was loaded: get it again.
            SessionNotFoundError: there is none, or it was deleted.
            AlreadyExistsError: the session has another event of that id.
        """
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        key = _key(session)
        body = self._body_of(key.keys[0], event)
        role = event.content and event.content.role
        message = Message(event.id, FORMAT, body, role=role, author=event.author or None)
        marker: str | None = None

        def add(found: Conversations) -> Mapping[Any, Any]:
            nonlocal marker
            conversation = found[MAIN]
            if not conversation:
                raise SessionNotFoundError(f"Session {session.id} not found.")
            if event.id in conversation:
                _check_same(message, conversation)
                is_last = conversation.latest(1)[0].id == event.id
                marker = _marker(conversation) if is_last else session._storage_update_marker
                return {}
            if not _is_current(session, conversation):
                reason = "was modified in storage since it was loaded: get it again"
                raise StaleSessionError(f"Session {session.id} {reason}.")
            marker = _marker(conversation, more=1)
            return {key: [message], **_shared(session, delta_of(body))}

        calls = Calls(session, key, body)

        async def append(store: Store) -> None:
            async def save() -> None:
                if await store.decide([key], add, copy=False):
                    await calls.save(store)

            # In turn, so that those who share one session object see what the others made of it.
            async with self._turns.setdefault(key.keys[0], asyncio.Lock()):
                await (store.transact(save) if calls else save())
                session._storage_update_marker = marker

        await self._access.acall(append)
        session.last_update_time = event.timestamp
        has_it = any(each.id == event.id for each in session.events)
        return event if has_it else await super().append_event(session, event)

    def _began_id(self, session_id: str) -> str:
        """The id of a new session's first message."""
        return str(Event.new_id())

    def _body_of(self, session_id: str, event: Event) -> dict[str, Any]:
        """An event as it is stored."""
        body: dict[str, Any] = event.model_dump(mode="json", exclude_none=True)
        return body

    def _seen(self, session_id: str, messages: list[Message]) -> list[Message]:
        """Those of a session's messages that a reader sees."""
        return messages


async def _load(
    store: Store,
    session: Session,
    config: GetSessionConfig,
    seen: Callable[[str, list[Message]], list[Message]],
) -> Session | None:
    """Fill a session with what the log has of it; None if there is none."""
    key = _key(session)
    messages, session._storage_update_marker = await store.view(
        key, lambda found: (list(found[MAIN]), _marker(found[MAIN])), consistency="strong"
    )
    if not messages:
        return None
    messages = seen(key.keys[0], messages)
    summary = Summary()
    for each in messages:
        summary.add(each)
    bodies = [each.body for each in messages if each.format == FORMAT and time_of(each) is not None]
    if config.after_timestamp is not None:
        bodies = [each for each in bodies if each["timestamp"] >= config.after_timestamp]
    if config.num_recent_events is not None:
        bodies = bodies[max(len(bodies) - config.num_recent_events, 0) :]
    session.events = [
        read_as(Event.model_validate, each, f"an event of session {shown(key.keys[0])}")
        for each in bodies
    ]
    return summary.fill(session, await shared_states(store, session, "strong"))


def _key(session: Session) -> Key[Conversations]:
    return said(session_id_of(session.app_name, session.user_id, session.id))


def _shared(session: Session, delta: Mapping[str, Any]) -> Mapping[Any, Any]:
    """What a delta changes of the states that the session shares with others."""
    found = {}
    for prefix, whose in (("app:", APP), ("user:", of_user(session.user_id))):
        if its := {k.removeprefix(prefix): v for k, v in delta.items() if k.startswith(prefix)}:
            found[states(session.app_name, whose)] = [StateChanged(its)]
    return found


def _marker(found: Conversation, more: int = 0) -> str:
    """Which session of its id it is, and how much was said in it."""
    return f"{next(iter(found.encoded), '')}:{found.version + more}"


def _is_current(session: Session, found: Conversation) -> bool:
    """Whether a session is as it is stored. One without a marker has the last event, or none."""
    if session._storage_update_marker is not None:
        return bool(session._storage_update_marker == _marker(found))
    [last] = found.latest(1)
    return [last.id][last.format == BEGAN :] == [each.id for each in session.events[-1:]]


def _check_same(message: Message, found: Conversation) -> None:
    """Refuse an event whose id another one has: to drop it would be to lose it."""
    [stored] = [each.body for each in found if each.id == message.id]
    names = ("author", "timestamp", "invocation_id") if isinstance(stored, dict) else ()
    is_other = any(stored.get(name) != message.body.get(name) for name in names)
    if is_other or (names and call_ids(stored) != call_ids(message.body)):
        raise AlreadyExistsError(f"The session has another event with id {message.id}.")
