"""Reading and writing states: decide on what stands there, then append if it still does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from foldlog.envelope import Draft
from foldlog.kind import Key
from foldlog.store.core import Core, core_of
from foldlog.store.decisions import InAtomic, decide_drafts
from foldlog.store.payloads import encode
from foldlog.store.primitives import At, Decided
from foldlog.store.store import BaseStore
from foldlog.store.waiting import list_key
from foldlog_projections import statelist, states
from foldlog_projections.statelist import Listed
from foldlog_projections.states import State


class Writing(NamedTuple):
    """What is to be appended to a state, and how it is listed from then on, if that changes.

    `waiting` says that it waits for a person from now on, or does no more.
    """

    drafts: list[Draft]
    listed: Listed | None = None
    waiting: Sequence[Draft] = ()


Decide = Callable[[State, int], Writing | None]
"""Given a state and the sequence at which it ends: what to append. No I/O; it changes nothing of
the state and keeps nothing of it.
"""


async def read_state(store: BaseStore, state_id: str) -> State:
    """Return a state as of now. Use it before the next await; never change it."""
    return (await core_of(store).read(states.kind, state_id, consistency="strong")).state


async def write_state(
    store: BaseStore, state_id: str, decide: Decide, *, in_atomic: InAtomic = "stage"
) -> bool:
    """Append what `decide` says, and return whether it said anything. Errors as `Store.decide`.

    State and lists change in the same moment; `in_atomic` says when, inside `store.atomic()`.
    """
    key, core = states.kind(state_id), core_of(store)

    def decision(at: At) -> dict[Key[Any], Decided]:
        writing = decide(at.folded.state, at.head)
        if writing is None:
            return {}
        decided: dict[Key[Any], Decided] = {key: Decided(writing.drafts)}
        if writing.listed is not None or writing.waiting:
            shard = core.subject(states.kind, state_id).shard
            if writing.listed is not None:
                listed = encode(statelist.kind, writing.listed)
                decided[_list_on(core, shard)] = Decided([listed])
            decided[list_key(core, shard)] = Decided(writing.waiting)
        return decided

    return bool(await decide_drafts(core, [key], decision, in_atomic=in_atomic))


async def listed_states(store: BaseStore) -> list[Listed]:
    """Return all states with what they are found by, as of now."""
    core = core_of(store)
    lists = [_list_on(core, shard) for shard in range(core.namespace.shards)]
    states_by_id = await store.views(lists, consistency="strong")
    return [listed for each in states_by_id for listed in each.values()]


def _list_on(core: Core, shard: int) -> Key[Any]:
    """The list on `shard`: a state and its entry are one append, on one shard."""
    return statelist.kind(core.namespace.key_on(shard, statelist.kind.name))
