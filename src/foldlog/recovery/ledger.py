"""Writing to states: decide on what stands there, then append if it still does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from foldlog.envelope import Draft, draft, upsert_id
from foldlog.kind import Key
from foldlog.store.payloads import dump
from foldlog.store.primitives import At, Decided, Primitives
from foldlog.store.removal import remove_state
from foldlog_projections import statelist, states
from foldlog_projections.statelist import Listed
from foldlog_projections.states import State


class Entry(NamedTuple):
    """What is to be appended to a state, and how it is listed from then on, if that changes."""

    drafts: list[Draft]
    listed: Listed | None = None


Decide = Callable[[State, int], Entry | None]
"""Given a state and the sequence at which it ends: what to append. No I/O; it changes nothing of
the state and keeps nothing of it. What it raises, the writer gets.
"""


class Ledger:
    """The states of one store, for those who write them."""

    def __init__(self, journal: Primitives) -> None:
        self.journal = journal

    async def read(self, state_id: str) -> State:
        """Return a state as of now. Use it before the next await; never change it.

        Raises:
            InvalidId: the id is empty. LogUnavailable, LogCorrupt: it could not be read.
        """
        folded = await self.journal.read(states.kind, state_id, consistency="strong")
        return folded.state

    async def write(self, state_id: str, decide: Decide) -> bool:
        """Append what `decide` says, and return whether it said anything.

        It is asked again whenever somebody else has written meanwhile. State and list change in
        the same moment. Never part of `store.atomic()`.

        Raises:
            InvalidId: the id is empty.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: see `foldlog.errors`.
        """
        key = states.kind(state_id)
        shard = self.journal.subject(states.kind, state_id).shard

        def decision(at: At) -> dict[Key[Any], Decided]:
            entry = decide(at.folded.state, at.head)
            if entry is None:
                return {}
            decided: dict[Key[Any], Decided] = {key: Decided(entry.drafts)}
            if entry.listed is not None:
                listed = drafted(statelist.LISTED, entry.listed)
                decided[statelist.kind(self._list_key(shard))] = Decided([listed])
            return decided

        return bool(await self.journal.decide_drafts([key], decision))

    async def remove(self, state_id: str) -> State:
        """Empty a state and take it off the list, in one moment; return what it held.

        Raises:
            InvalidId: the id is empty.
            LogUnavailable, AppendUnknown: it may still be there; removing again is safe.
        """
        return await remove_state(self.journal, state_id)

    async def listed(self) -> list[Listed]:
        """Return the list, as of now. Errors as `read`."""
        found: list[Listed] = []
        for shard in range(self.journal.forked_log.namespace.shards):
            key = self._list_key(shard)
            folded = await self.journal.read(statelist.kind, key, consistency="strong")
            found += folded.state.values()
        return found

    def _list_key(self, shard: int) -> str:
        """The key of the list on `shard`: a state and its entry are one append, on one shard."""
        return self.journal.forked_log.namespace.key_on(shard, statelist.kind.name)


def drafted(type: str, payload: msgspec.Struct) -> Draft:
    """The draft of a record that replaces what was there."""
    body = dump(payload)
    return draft(type, body, id=upsert_id(body))
