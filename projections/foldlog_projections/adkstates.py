"""What sessions of Google's ADK share: the state of an app, or of one user, and a user's sessions.

Nothing here imports ADK. A session's own state is in its messages.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog.kind import Content, Fold, Kind
from foldlog.subjects import checked_id

CHANGED: Final = "adk.state_changed"
LISTED: Final = "adk.session_listed"
UNLISTED: Final = "adk.session_unlisted"


class StateChanged(msgspec.Struct, frozen=True):
    """`adk.state_changed`: the keys of `delta` have these values now. Keys have no prefix."""

    delta: Content[Any]


class SessionListed(msgspec.Struct, frozen=True):
    """`adk.session_listed`: the user has, or will have, a session of this ADK id."""

    session_id: str


class SessionUnlisted(msgspec.Struct, frozen=True):
    """`adk.session_unlisted`: the session was deleted."""

    session_id: str


class Shared(msgspec.Struct):
    """`state` by key; `sessions` are a user's, as ADK names them, in the order of their listing."""

    state: dict[str, Any] = msgspec.field(default_factory=dict)
    sessions: dict[str, None] = msgspec.field(default_factory=dict)


def _apply(shared: Shared, record: Any, _: Recorded) -> Shared:
    match record:
        case StateChanged(delta=dict(delta)):
            shared.state.update(delta)
        case SessionListed(session_id):
            shared.sessions[session_id] = None
        case SessionUnlisted(session_id):
            shared.sessions.pop(session_id, None)
    return shared


def _keep(shared: Shared) -> bytes:
    return codec.encode([shared.state, list(shared.sessions)])


def _restore(kept: bytes) -> Shared:
    state, sessions = codec.decode(kept)
    return Shared(state, dict.fromkeys(sessions))


kind = Kind(
    "adkstates",
    keys=("app_name", "whose"),
    records={CHANGED: StateChanged, LISTED: SessionListed, UNLISTED: SessionUnlisted},
    fold=Fold(Shared, _apply, keep=_keep, restore=_restore),
)
"""`whose` is APP, or `of_user(user_id)`."""

APP: Final = "app"

_USER: Final = "user:"


def of_user(user_id: str) -> str:
    """What the state of a user stands under, within the app. InvalidId: the id is empty."""
    return _USER + checked_id(user_id, "user_id")


def user_of(whose: str) -> str | None:
    """The user whose state it is; None for the app's own."""
    return whose.removeprefix(_USER) if whose.startswith(_USER) else None
