"""Removing views, and all that is a session's, which stays removed when a late writer retries.

The sequence of a session's tombstone names the *generation* that begins there. Folds refuse what is
older by its id; the spool, by what its writer knew of the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, Final, TypeVar

from foldlog.envelope import CLEARED, draft
from foldlog.errors import ConfigurationError, LogCorrupt, PayloadError, SessionHasForks
from foldlog.kind import Key, Kind
from foldlog.log.port import Append
from foldlog.store.artifacts import Artifacts
from foldlog.store.blobs import BlobStore
from foldlog.store.operation import nothing, operation
from foldlog.store.ownership import Ownership
from foldlog.store.payloads import encode
from foldlog.store.primitives import Primitives
from foldlog.store.scopes import (
    clear_key,
    clear_scope,
    contents,
    is_own,
    own,
    scope_of_session,
    session_of_scope,
)
from foldlog.store.spool import Drafts
from foldlog.store.tombstones import bury, clear_view
from foldlog.store.waiting import forget_views
from foldlog.subjects import Subject
from foldlog_projections import (
    agentlist,
    agentshares,
    agentstates,
    artifacts,
    belongings,
    blobs,
    lineage,
    memory,
    scoped,
    statelist,
    states,
    traces,
    trajectory as trajectories,
)
from foldlog_projections.agentlist import Unlisted as AgentUnlisted
from foldlog_projections.agentshares import Revoked, Shared
from foldlog_projections.belongings import Belonging
from foldlog_projections.folds import every
from foldlog_projections.lineage import Began
from foldlog_projections.statelist import Unlisted as StateUnlisted
from foldlog_projections.states import State

_AT_ONCE: Final = 32
"""Views that are read or cleared side by side."""

_MORE_THAN_A_VIEW: Final = (artifacts.kind, scoped.kind, states.kind, agentstates.kind)
"""Kinds with indexes or objects of their own, which go with a view."""

S = TypeVar("S")


class Removal(Ownership):
    """Removes single views and whole sessions, and lists sessions."""

    _artifacts: Artifacts
    _blobs: BlobStore

    @operation(nothing, writes=True)
    async def delete(
        self,
        key: Key[S],
        *,
        overwrite: bool = True,
        check: Callable[[S], None] | None = None,
    ) -> None:
        """Delete one view with its history, as if nothing had been saved in it.

        What is saved afterwards counts, also a repetition of what was deleted. Deleting a view that
        holds nothing does nothing.

        Args:
            key: the view, as in `foldlog.kinds.memory("acme:ann:trip")`.
            overwrite: no file holds its bytes when this returns, which takes some milliseconds for
                each record. False: the view goes at once, and the server frees the bytes when it
                next rewrites their files. Views with indexes or large objects are always
                overwritten.
            check: called with the state that is about to be deleted, as in `query`. If it raises,
                the error is raised and nothing is deleted.

        Raises:
            InvalidId: a key is empty.
            PayloadError: the kind folds another kind's records; delete that kind's view.
            ConfigurationError: the store does not know the kind; or `check` is given for a kind
                with indexes or large objects.
            SessionHasForks: forks share the view. Nothing was deleted.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; delete again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        self._subject(key)
        kind = key.kind
        if kind.of is not None:
            raise PayloadError(kind.name, f"delete from {kind.of.name}, which it folds")
        if check is not None and kind in _MORE_THAN_A_VIEW:
            raise ConfigurationError(f"{kind.name} has more than a view: delete it without check=")
        await self.refuse_if_forked(key)
        await self._remove(key, remember=False, overwrite=overwrite, check=check)
        if kind is scoped.kind:
            await self._forget_scope(key.keys[0])

    async def refuse_if_forked(self, key: Key[Any]) -> None:
        """Internal: refuse to remove what forks share."""
        name = key.keys[0]
        session_id = name if key.kind.owner == "session" else None
        if key.kind is memory.kind:
            session_id = memory.session_of(name)
        elif key.kind is scoped.kind:
            session_id = session_of_scope(name)
        forks = (await self.lineage_of(session_id, "strong")).forks if session_id else ()
        if session_id and forks:
            raise SessionHasForks(session_id, sorted(forks))

    async def _remove_all(self, views: Sequence[Key[Any]]) -> None:
        """Remove views; late repetitions of what sessions and traces held are refused."""
        whole = {key.keys[0] for key in views if is_own(key)}
        single = [
            k for k in views if k.kind is not scoped.kind or is_own(k) or k.keys[0] not in whole
        ]
        for start in range(0, len(single), _AT_ONCE):
            await asyncio.gather(*map(self._remove, single[start : start + _AT_ONCE]))

    async def _remove(
        self,
        key: Key[Any],
        *,
        remember: bool = True,
        overwrite: bool = True,
        check: Callable[[Any], None] | None = None,
    ) -> None:
        kind, keys = key.kind, key.keys
        if kind is artifacts.kind:
            await self._artifacts.clear_session(*keys)
        elif is_own(key):
            await clear_scope(self, self._blobs, keys[0], overwrite=True)
        elif kind is scoped.kind:
            await clear_key(self, self._blobs, *keys)
        elif kind is states.kind:
            await self._forget_state_artifacts(*keys)  # first: only the state leads to them
            await remove_state(self, *keys)
        elif kind is agentstates.kind:
            await remove_agent_scope(self, *keys)
        else:
            await clear_view(self, key, remember=remember, overwrite=overwrite, check=check)

    async def _forget_state_artifacts(self, state_id: str) -> None:
        """Remove the large objects to which a state refers, and no other state does."""

    async def _forget_scope(self, scope: str | None) -> None:
        """Have what a facade keeps of a scope beside the log forgotten; None: of all."""

    @operation(nothing, writes=True)
    async def clear_session(self, session_id: str) -> None:
        """Remove a session with all that was saved in it.

        That is its tasks, updates, steering, messages, memory (keys that end in its id) and scope;
        the traces that `list_traces` names and `session:<id>`, each with its events, bindings and
        trajectory; its artifacts; and what was saved with its `session_id`: executions, agents'
        scopes, scoped keys, pauses, and what `belong` names. A trace that only a task names stays.
        Saving again what was removed has no effect; a save with new content begins the session
        anew. What a fork shares with its origin stays with the origin.

        Args:
            session_id: the session. An unknown one is left as it is.

        Raises:
            InvalidId: the id is empty.
            SessionHasForks: forks still share the session. Nothing was removed.
            ConfigurationError: the server denies deletes, or a spool file cannot be written. Some
                may remain.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; clear again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        origin = await self.close_lineage(session_id)
        marker = self.subject(lineage.MARKER, session_id)
        # At once, also inside `atomic()`, as all that follows. Its sequence is the generation.
        marked = Append(marker, (draft(CLEARED, b"\xc0", id="session"),))
        [generation] = await self.append_atomically([marked])
        views = await self.views_of_session(session_id, origin)
        lists = [traces.kind(session_id), belongings.kind(session_id)]
        await self._remove_all([key for key in views if key not in lists])
        # What lists the others goes last, so that another clearing can finish an interrupted one.
        names = await clear_view(self, traces.kind(session_id))
        belonging = await clear_view(self, belongings.kind(session_id), remember=False)
        late = [*self._views_of_traces(session_id, names), *self._views_of(belonging)]
        kept = await self._inherited_views(session_id, origin)
        await self._remove_all([key for key in late if key not in {*views, *kept}])
        await forget_views(self, [*views, *late])
        for scope in {key.keys[0] for key in views if key.kind is scoped.kind}:
            await self._forget_scope(scope)
        await self._forget_spooled(session_id, [*views, *late])
        if origin is not None:
            await self.leave_origin(session_id, origin)
            await clear_view(self, lineage.kind(session_id), remember=False)
        await self.forked_log.purge(marker, before=generation)

    @operation(nothing, writes=True)
    async def clear(self) -> None:
        """Remove everything in the namespace. It is for tests and fresh starts.

        Unlike `clear_session` it does not remember what there was. What is saved meanwhile may
        stay.

        Raises:
            ConfigurationError: the server denies deletes, or a spool file cannot be written.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; clear again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        await self.settle()
        log = self.forked_log
        # Up to here every record belongs to a subject that is listed next. One whose first record
        # comes later may not be, and must not go without a tombstone: others may show it.
        heads = await log.heads()
        subjects = [each for each in await log.subjects() if each.family != blobs.kind.name]
        sessions = {subject.keys[0] for subject in subjects if self._is_of_session(subject)}
        markers = [log.namespace.subject(lineage.MARKER, session_id) for session_id in sessions]
        await bury(self, dict.fromkeys([*subjects, *markers]))
        await self._blobs.clear()  # now that nothing refers to them
        for shard, head in enumerate(heads):
            await log.purge(shard, before=head + 1)
        await self.hot_views.drop_snapshots()
        await self._forget_scope(None)

    @operation(list)
    async def sessions(self) -> list[str]:
        """Return the ids of all sessions that hold something, sorted.

        It is for operators: its cost grows with the number of views.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return sorted(await self.list_session_sizes())

    @operation(dict)
    async def list_session_sizes(self) -> dict[str, int]:
        """Return the number of stored records of each session that holds something, by session id.

        It counts the views that have the session's id; one record may hold several envelopes. A
        number that grows says that something was saved. Its cost grows with the number of views.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        subjects = await self.forked_log.subjects()
        cleared = {subject.keys[0] for subject in subjects if subject.family == lineage.MARKER}
        known: dict[str, dict[str, int]] = {}
        for subject, records in subjects.items():
            if self._is_of_session(subject):
                known.setdefault(subject.keys[0], {})[subject.family] = records
        # A single record may be the tombstone of the only view that there was.
        doubtful = [n for n, held in known.items() if n in cleared or [*held.values()] == [1]]
        found = known.keys() - set(doubtful)
        for start in range(0, len(doubtful), _AT_ONCE):
            some = doubtful[start : start + _AT_ONCE]
            held = await asyncio.gather(*(self._holds(name, known[name]) for name in some))
            found |= {each for each, holds in zip(some, held, strict=True) if holds}
        return {name: sum(known[name].values()) for name in sorted(found)}

    async def views_of_session(self, session_id: str, origin: Began | None) -> list[Key[Any]]:
        """Internal: all views that are a session's; what its origin shares is not.

        Those that the kinds declare; its traces'; its scope, whose keys a kind cannot tell from
        those of other scopes; and those that its `belongings` list.
        """
        listed = (await self.read_what_can_be(traces.kind, session_id)).state
        belonging = (await self.read_what_can_be(belongings.kind, session_id)).state
        views = self._views_of_traces(session_id, [f"session:{session_id}", *listed])
        for kind in self.kinds_of("session"):
            if len(kind.keys) == 1:
                views.append(kind(session_id))
            elif kind is not trajectories.kind:
                views += await self.keys(kind, (session_id,))
        views += self._views_of(belonging)
        scope = scope_of_session(session_id)
        views += [scoped.kind(scope, key) for key in (await contents(self, scope)).keys]
        kept = await self._inherited_views(session_id, origin)
        return [key for key in dict.fromkeys([*views, own(scope)]) if key not in kept]

    async def _inherited_views(self, session_id: str, origin: Began | None) -> set[Key[Any]]:
        """What a fork only shares: the views of its origin's traces and belongings."""
        if origin is None:
            return set()
        names = await self.inherited(origin, traces.kind)
        belonging = await self.inherited(origin, belongings.kind)
        views = [kind(name) for name in names for kind in self.kinds_of("trace")]
        return {*views, *self._views_of(belonging)}

    def _views_of_traces(self, session_id: str, names: Iterable[str]) -> list[Key[Any]]:
        views: list[Key[Any]] = []
        for name in names:
            views += [kind(name) for kind in self.kinds_of("trace")]
            views.append(trajectories.kind(session_id, name))
        return views

    def _views_of(self, belonging: Iterable[Belonging]) -> list[Key[Any]]:
        return [Key(self.kinds.get(each.kind) or _unknown(each), each.keys) for each in belonging]

    async def _forget_spooled(self, session_id: str, views: Iterable[Key[Any]]) -> None:
        """Remove what is a session's from spool files: what was refused, and of killed writers."""
        place = self.backend.place
        if place is None:
            return
        known = {(key.kind.family, key.keys) for key in views}
        families = {kind.family for kind in self.kinds_of("session")}
        scope = scope_of_session(session_id)  # also the name of its own trace

        def is_erased(drafts: Drafts) -> bool:
            first = drafts.keys[0]
            is_own = first == scope or (first == session_id and drafts.family in families)
            return is_own or (drafts.family, drafts.keys) in known

        try:
            await asyncio.to_thread(place.erase, is_erased)
        except OSError as error:
            raise ConfigurationError(
                f"the spool directory {place.directory} may still hold what was cleared "
                f"({error}): see to it that it can be written, and clear again"
            ) from error

    async def _holds(self, session_id: str, families: Container[str]) -> bool:
        kinds = [kind for kind in self.session_kinds if kind.name in families]
        try:
            folds = await asyncio.gather(
                *(self.read(kind, session_id, consistency="strong") for kind in kinds)
            )
        except LogCorrupt:
            return True
        return any(folded.state for folded in folds)

    def _is_of_session(self, subject: Subject) -> bool:
        # Artifacts without a session stand under two keys.
        return len(subject.keys) == 1 and any(
            subject.family == kind.name for kind in self.session_kinds
        )


async def remove_state(store: Primitives, state_id: str) -> State:
    """Empty an execution's state and take it off the list, in one moment; return what it held."""
    namespace = store.forked_log.namespace
    shard = store.subject(states.kind, state_id).shard
    index = store.subject(statelist.kind, namespace.key_on(shard, statelist.kind.name))
    unlisted = Append(index, (encode(statelist.kind, StateUnlisted(state_id)),))
    return await clear_view(store, states.kind(state_id), remember=False, also=[unlisted])


async def remove_agent_scope(store: Primitives, runtime: str, scope: str) -> None:
    """Empty an agent's scope, take it off the list, and revoke the tokens that open it.

    It looks at all tokens of the runtime.
    """
    shares = await store.keys(agentshares.kind, (runtime,))
    opened = zip(shares, await store.views(shares, consistency="strong"), strict=True)
    also = [
        Append(store.subject(key.kind, *key.keys), (encode(agentshares.kind, Revoked()),))
        for key, share in opened
        if isinstance(share, Shared) and share.scope == scope
    ]
    index = store.subject(agentlist.kind, runtime)
    also.append(Append(index, (encode(agentlist.kind, AgentUnlisted(scope)),)))
    await clear_view(store, agentstates.kind(runtime, scope), remember=False, also=also)


def _unknown(belonging: Belonging) -> Kind[Any]:
    """A kind that this program does not know: its records can be removed all the same."""
    keys = tuple(f"key_{number}" for number, _ in enumerate(belonging.keys))
    return Kind(belonging.kind, keys=keys, fold=every)
