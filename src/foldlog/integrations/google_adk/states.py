"""What a session of ADK has beside its events: its state, and that of its app and its user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from google.adk.sessions import Session

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.opening import Store
from foldlog.views import Consistency
from foldlog_projections.google_adk.adkstates import APP, kind as states, of_user
from foldlog_projections.messages import MAIN, Message, MessagesRemoved, kind as said

FORMAT: Final = "google_adk"
"""The format of messages that are events; the body is the event's JSON."""

BEGAN: Final = "google_adk.session"
"""The format of a session's first message: its state when it was created."""


class Summary(msgspec.Struct):
    """A session without its events: its first message, its conversation's version, its state."""

    first: str = ""
    version: int = 0
    state: dict[str, Any] = msgspec.field(default_factory=dict)
    last_update_time: float = 0.0

    def add(self, message: Message) -> Summary:
        """Take a message in, and return itself."""
        self.first = self.first or message.id
        if message.format in (BEGAN, FORMAT) and (time := time_of(message)) is not None:
            began = message.format == BEGAN
            delta = message.body.get("state") if began else delta_of(message.body)
            self.state.update(own_part(delta) if isinstance(delta, dict) else {})
            self.last_update_time = time
        return self

    def fill(self, session: Session, shared: Mapping[str, Any]) -> Session:
        """Give a session its states and its time, and return it."""
        session.last_update_time = self.last_update_time
        session.state = {**self.state, **shared}
        return session


def _summarise(found: Summary, record: Message | MessagesRemoved, _: Recorded) -> Summary:
    if record.conversation != MAIN:
        return found
    if isinstance(record, MessagesRemoved):
        found = Summary() if record.ids is None else found
    else:
        found = found.add(record)
    found.version += 1
    return found


SUMMARY: Final[Kind[Summary]] = Kind(
    "adk_summary",
    of=said,
    fold=Fold(
        Summary,
        _summarise,
        keep=lambda found: codec.encode(list(msgspec.structs.astuple(found))),
        restore=lambda kept: Summary(*codec.decode(kept)),
    ),
)


def time_of(message: Message) -> float | None:
    """When a message was said; None: of its body `redact=` has left nothing."""
    name = "last_update_time" if message.format == BEGAN else "timestamp"
    time = message.body.get(name) if isinstance(message.body, dict) else None
    return time if isinstance(time, int | float) else None


async def shared_states(store: Store, session: Session, consistency: Consistency) -> dict[str, Any]:
    """What a session shares with others of its app and its user, by keys with the prefix."""
    whose = {"app:": APP, "user:": of_user(session.user_id)}
    keys = [states(session.app_name, each) for each in whose.values()]
    found = zip(whose, await store.views(keys, consistency=consistency), strict=True)
    return {prefix + key: value for prefix, its in found for key, value in its.items()}


def delta_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an event changes of states."""
    actions = body.get("actions")
    delta = actions.get("state_delta") if isinstance(actions, dict) else None
    return delta if isinstance(delta, dict) else {}


def own_part(delta: Mapping[str, Any]) -> dict[str, Any]:
    """What a delta changes of the session's own state."""
    return {k: v for k, v in delta.items() if not k.startswith(("app:", "user:", "temp:"))}
