"""Calls that a run of ADK waits for: confirmations, credentials, inputs, long-running tools.

They are pauses, saved with the event that asks; the user's event that answers ends them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from google.adk.sessions import Session

from foldlog.integrations.waiting import begin_waiting, token_beside
from foldlog.kind import Key
from foldlog.models import WaitingKind
from foldlog.opening import Store
from foldlog.store.waiting import Ref

_REQUEST: Final = "adk_request_"
"""What the names of ADK's own requests begin with; `confirmation`, for instance, follows."""


class Calls:
    """The calls that wait since an event of a session, and those that it answers.

    False, if there are none.

    Args:
        key: the session's messages. body: the event, as JSON.
    """

    def __init__(self, session: Session, key: Key[Any], body: Mapping[str, Any]) -> None:
        self._session, self._key, self._body = session, key, body
        by_user = body.get("author") == "user"
        ids = body.get("long_running_tool_ids") or ()
        self._asked = [each for each in _parts(body, "function_call") if each.get("id") in ids]
        self._answered = [
            each["id"] for each in _parts(body, "function_response") if by_user and each.get("id")
        ]

    def __bool__(self) -> bool:
        return bool(self._asked or self._answered)

    async def save(self, store: Store) -> None:
        """List those that wait, and take off those that are answered. Errors as a pause's."""
        for call in self._asked:
            name = str(call.get("name"))
            is_request = name.startswith(_REQUEST)
            await begin_waiting(
                store,
                self._token(store, call["id"]),
                name.removeprefix(_REQUEST) if is_request else "long_running_tool",
                {**self._place(), "id": call["id"], "name": name, "args": call.get("args")},
                session_id=self._key.keys[0],
                answer_in="your program: run the agent with this id's FunctionResponse",
                user_id=self._session.user_id,
            )
        for id in self._answered:
            await store.load_planner_state(self._token(store, id))

    def _place(self) -> dict[str, Any]:
        """What a runner takes, to go on."""
        of = self._session
        ids = {"app_name": of.app_name, "user_id": of.user_id, "session_id": of.id}
        return {**ids, "invocation_id": self._body.get("invocation_id")}

    def _token(self, store: Store, id: str) -> str:
        return token_beside(store, self._key, f"google_adk:{self._key.keys[0]}:{id}")


async def end_waiting(store: Store, session_id: str) -> None:
    """Take all calls of a session that was deleted off the list of what waits."""
    for item in await store.waiting(session_id=session_id):
        if item.kind is WaitingKind.PAUSE:
            await store.load_planner_state(*Ref.of(item.id).keys)


def call_ids(body: Mapping[str, Any]) -> list[str | None]:
    """The ids of an event's calls, and of the calls that it answers."""
    names = ("function_call", "function_response")
    return [each.get("id") for name in names for each in _parts(body, name)]


def _parts(body: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    content = body.get("content") or {}
    return (each[name] for each in content.get("parts") or () if each.get(name))
