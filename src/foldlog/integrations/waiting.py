"""What waits for a person, in the same append as the save that makes it wait, or go on."""

from __future__ import annotations

import itertools
from typing import Any

from foldlog import kinds
from foldlog.kind import Key
from foldlog.opening import Store
from foldlog.store.core import core_of
from foldlog.store.pauses import FOREVER


def token_beside(store: Store, key: Key[Any], name: str) -> str:
    """Return a pause's token that begins with `name`, on the shard of a view.

    It is `name` itself, if that falls there: always, where there is one shard.
    """
    shard = core_of(store).subject(key.kind.family, *key.keys).shard
    numbered = (f"{name}~{number}" for number in itertools.count(1))
    tokens = itertools.chain([name], numbered)
    return next(
        each for each in tokens if core_of(store).subject(kinds.pauses, each).shard == shard
    )


async def begin_waiting(
    store: Store,
    token: str,
    reason: str,
    payload: Any,
    *,
    session_id: str,
    answer_in: str,
    **about: Any,
) -> None:
    """Put what waits on the list under a token; `store.load_planner_state(token)` takes it off.

    It does not expire: no framework forgets what it has asked.

    Args:
        reason, payload: as `Waiting.asked` shows them.
        session_id: the session that it goes with; "": none.
        answer_in: where it is answered: `Waiting.asked` says it, and `store.answer` refuses it.
        about: more of what names it: `user_id` for whom it is meant, `task_id`.

    Errors as `Store.save_planner_state`.
    """
    asked = {
        "reason": reason,
        "payload": payload,
        "answer_in": answer_in,
        "tool_context": {"session_id": session_id, **about},
    }
    await store.save_planner_state(token, asked, session_id=session_id or None, ttl=FOREVER)
