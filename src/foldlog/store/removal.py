"""Removing one view: what it holds, the index entries that lead to it, and its bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from foldlog.envelope import Draft, draft, upsert_id
from foldlog.errors import PayloadError, SessionHasForks
from foldlog.kind import Key
from foldlog.log.port import Append
from foldlog.store.artifacts import Artifacts
from foldlog.store.blobs import BlobStore
from foldlog.store.lineages import Lineages
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import dump
from foldlog.store.primitives import Primitives
from foldlog.store.scopes import clear_key, clear_scope, session_of_scope
from foldlog.store.tombstones import clear_view
from foldlog_projections import (
    agentlist,
    agentshares,
    agentstates,
    artifacts,
    memory,
    scoped,
    scopes,
    statelist,
    states,
)
from foldlog_projections.agentlist import Unlisted as AgentUnlisted
from foldlog_projections.agentshares import Revoked, Shared
from foldlog_projections.statelist import Unlisted as StateUnlisted
from foldlog_projections.states import State

_AT_ONCE: Final = 32
"""Views that are removed side by side."""


class Removal(Lineages):
    """Removes single views."""

    _artifacts: Artifacts
    _blobs: BlobStore

    @operation(nothing, writes=True)
    async def delete(self, key: Key[Any]) -> None:
        """Delete one view with its history, as if nothing had been saved in it.

        `await store.delete(foldlog.kinds.memory("acme:ann:trip"))`. What is saved afterwards
        counts, also a repetition of what was deleted. Fine if there is nothing.

        Raises:
            PayloadError: the kind has no records of its own. ConfigurationError: the store has no
                such kind. InvalidId: a key is empty.
            SessionHasForks: it is a session's, and shared with forks. Nothing was deleted.
            LogUnavailable, AppendUnknown: some may remain; deleting again is safe.
        """
        self._subject(key)
        kind = key.kind
        if kind.of is not None:
            raise PayloadError(kind.name, f"delete from {kind.of.name}, which it folds")
        await self.refuse_if_forked(key)
        await self._remove(key, remember=False)
        if kind in (scoped.kind, scopes.kind):
            await self._forget_scope(key.keys[0])

    async def refuse_if_forked(self, key: Key[Any]) -> None:
        """Refuse to remove what forks share.

        Raises:
            SessionHasForks: the view stands under a session's id, and the session has forks.
        """
        name = key.keys[0]
        session_id = name if key.kind.owner == "session" else None
        if key.kind is memory.kind:
            session_id = memory.session_of(name)
        elif key.kind in (scoped.kind, scopes.kind):
            session_id = session_of_scope(name)
        forks = (await self.lineage_of(session_id, "strong")).forks if session_id else ()
        if session_id and forks:
            raise SessionHasForks(session_id, sorted(forks))

    async def _remove_all(self, views: Sequence[Key[Any]]) -> None:
        """Remove views; late repetitions of what sessions and traces held are refused."""
        whole = {key.keys for key in views if key.kind is scopes.kind}
        single = [k for k in views if k.kind is not scoped.kind or k.keys[:1] not in whole]
        for start in range(0, len(single), _AT_ONCE):
            await asyncio.gather(*map(self._remove, single[start : start + _AT_ONCE]))

    async def _remove(self, key: Key[Any], *, remember: bool = True) -> None:
        kind, keys = key.kind, key.keys
        if kind is artifacts.kind:
            await self._artifacts.clear_session(*keys)
        elif kind is scopes.kind:
            await clear_scope(self, self._blobs, *keys, overwrite=True)
        elif kind is scoped.kind:
            await clear_key(self, self._blobs, *keys)
        elif kind is states.kind:
            await self._forget_state_artifacts(*keys)  # first: only the state leads to them
            await remove_state(self, *keys)
        elif kind is agentstates.kind:
            await remove_agent_scope(self, *keys)
        else:
            await clear_view(self, key, remember=remember)

    async def _forget_state_artifacts(self, state_id: str) -> None:
        """Remove the large objects to which a state refers, and no other state does."""

    async def _forget_scope(self, scope: str | None) -> None:
        """Have what a facade keeps of a scope beside the log forgotten; None: of all."""


async def remove_state(store: Primitives, state_id: str) -> State:
    """Empty an execution's state and take it off the list, in one moment; return what it held.

    Raises:
        InvalidId: the id is empty.
        LogUnavailable, AppendUnknown: it may still be there; removing again is safe.
    """
    namespace = store.forked_log.namespace
    shard = store.subject(states.kind, state_id).shard
    index = store.subject(statelist.kind, namespace.key_on(shard, statelist.kind.name))
    unlisted = Append(index, (_drafted(statelist.UNLISTED, StateUnlisted(state_id)),))
    return await clear_view(store, states.kind(state_id), remember=False, also=[unlisted])


async def remove_agent_scope(store: Primitives, runtime: str, scope: str) -> None:
    """Empty an agent's scope, take it off the list, and revoke the tokens that open it.

    It looks at all tokens of the runtime.

    Raises:
        LogUnavailable, AppendUnknown: it may still be there; removing again is safe.
    """
    shares = await store.keys(agentshares.kind, (runtime,))
    opened = zip(shares, await store.views(shares, consistency="strong"), strict=True)
    also = [
        Append(store.subject(key.kind, *key.keys), (_drafted(agentshares.REVOKED, Revoked()),))
        for key, share in opened
        if isinstance(share, Shared) and share.scope == scope
    ]
    index = store.subject(agentlist.kind, runtime)
    also.append(Append(index, (_drafted(agentlist.UNLISTED, AgentUnlisted(scope)),)))
    await clear_view(store, agentstates.kind(runtime, scope), remember=False, also=also)


def _drafted(type: str, payload: msgspec.Struct) -> Draft:
    body = dump(payload)
    return draft(type, body, id=upsert_id(body))
