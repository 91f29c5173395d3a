"""What waits for a person, in the same append as the save that makes it wait, or go on."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from foldlog import kinds
from foldlog.errors import AppendConflict
from foldlog.kind import Key
from foldlog.opening import Store
from foldlog.store.core import DECIDE_SECONDS, open_block
from foldlog.store.primitives import Attempts

T = TypeVar("T")


async def together(store: Store, save: Callable[[], Awaitable[T]]) -> T:
    """Return what `save` returns; all that it saves and decides is one append, or none.

    Where others write to what it decides on, it is called again, for ten seconds at most. Inside
    the caller's own `store.atomic()` it goes with that block, which is the caller's to run again.

    Raises:
        What `save` raises, and what `Store.atomic` does.
    """
    if open_block(store) is not None:
        return await save()
    attempts = Attempts(DECIDE_SECONDS)
    while True:
        try:
            async with store.atomic():
                return await save()
        except AppendConflict as conflict:
            await attempts.pause(conflict)


def token_beside(store: Store, key: Key[Any], name: str) -> str:
    """Return a pause's token that begins with `name`, on the shard of a view.

    It is `name` itself, if that falls there: always, where there is one shard.
    """
    shard = store.subject(key.kind.family, *key.keys).shard
    numbered = (f"{name}~{number}" for number in itertools.count(1))
    tokens = itertools.chain([name], numbered)
    return next(each for each in tokens if store.subject(kinds.pauses, each).shard == shard)


async def begin_waiting(
    store: Store, token: str, reason: str, payload: Any, *, session_id: str, **about: Any
) -> None:
    """Put what waits on the list under a token; `store.load_planner_state(token)` takes it off.

    Args:
        reason, payload: as `Waiting.asked` shows them.
        session_id: the session that it goes with; "": none.
        about: more of what names it: `user_id` for whom it is meant, `task_id`.

    Errors as `Store.save_planner_state`.
    """
    asked = {
        "reason": reason,
        "payload": payload,
        "tool_context": {"session_id": session_id, **about},
    }
    await store.save_planner_state(token, asked, session_id=session_id or None)
