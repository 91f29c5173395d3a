"""What sessions of Google's ADK share: the state of an app, or of one user.

Nothing here imports ADK. A session's own state is in its messages.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog.kind import Content, Fold, Kind
from foldlog.subjects import checked_id
from foldlog.words import Shown

CHANGED: Final = "adk.state_changed"


class StateChanged(msgspec.Struct, frozen=True):
    """`adk.state_changed`: the keys of `delta` have these values now. Keys have no prefix."""

    delta: Content[Any]


def _apply(state: dict[str, Any], record: StateChanged, _: Recorded) -> dict[str, Any]:
    if isinstance(record.delta, dict):  # of others `redact=` has left nothing
        state.update(record.delta)
    return state


kind: Final = Kind(
    "adkstates",
    keys=("app_name", "whose"),
    records={CHANGED: StateChanged},
    fold=Fold(dict[str, Any], _apply, keep=codec.encode, restore=codec.decode),
    shown=Shown({CHANGED: "state of {whose} changed: {delta}"}, group="memory"),
)
"""`whose` is APP, or `of_user(user_id)`."""

APP: Final = "app"


def of_user(user_id: str) -> str:
    """What the state of a user stands under, within the app. InvalidId: the id is empty."""
    return f"user:{checked_id(user_id, 'user_id')}"
