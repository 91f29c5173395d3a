"""Agent state on the log: each scope has a subject, each turn is one append."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.envelope import CLEARED, Draft, Recorded
from foldlog.errors import AppendConflict, LogCorrupt, LogUnavailable
from foldlog.kind import Key
from foldlog.store.belonging import add_belongings
from foldlog.store.core import core_of
from foldlog.store.decisions import decide_drafts
from foldlog.store.operation import Calls
from foldlog.store.payloads import encode
from foldlog.store.primitives import At, Decided
from foldlog.store.redaction import Redaction
from foldlog.store.restoring import load
from foldlog.store.store import BaseStore
from foldlog.subjects import Subject
from foldlog.views import Consistency
from foldlog_projections.agents import agentlist, agentshares, agentstates
from foldlog_projections.agents.agentlist import Listed
from foldlog_projections.agents.agentshares import Revoked, Shared
from foldlog_projections.agents.agentstates import AgentState, Change, Entry, Turned
from foldlog_projections.delta import cut
from foldlog_projections.fold import Folded, start, step

_log: Final = logging.getLogger("foldlog")

_RETRY_SECONDS = 1.0
"""Seconds between attempts of a watcher to read a log that is away."""

_PART_BYTES: Final = 128 * 1024
"""So that a part fits into a message of any server, and several into a record."""

_encode: Final = msgspec.msgpack.Encoder().encode


class Loaded(NamedTuple):
    """A scope as of `version`, 0 for one without state. The entries never change."""

    version: int
    entries: Mapping[str, Entry]


class Write(NamedTuple):
    """Changes of one scope that must be at version `expected`; `is_first`: it holds nothing yet."""

    scope: str
    expected: int
    changes: Sequence[Change]
    is_first: bool


class Commit(NamedTuple):
    """A turn as it was stored: its keys, each with its entry before and after the turn."""

    version: int
    ts: float
    label: str
    keys: Mapping[str, tuple[Entry | None, Entry | None]]


class Ledger:
    """The scopes and shares of one manager, all on the shard that the manager's name chooses.

    Every scope that it writes belongs to the session `session_id`, if that is given.
    """

    def __init__(self, journal: BaseStore, name: str, session_id: str | None = None) -> None:
        self._journal = journal
        self._core = core_of(journal)
        self.calls: Calls = self._core.calls
        self._name = name
        self._session_id = session_id

    @property
    def redaction(self) -> Redaction:
        """The store's `redact=`, for states and labels."""
        return self._core.redaction

    async def load(self, scope: str, consistency: Consistency) -> Loaded:
        """Return a scope as of now. Raises LogUnavailable, LogCorrupt."""
        folded, head = await self._core.read_at(self._key(scope), consistency=consistency)
        # The entries never change, but which they are does.
        return Loaded(head, dict(folded.state.entries))

    async def commit(
        self, writes: Sequence[Write], shares: Sequence[tuple[str, Shared]], label: str
    ) -> dict[str, int]:
        """Store writes and shares (by digest) at once; return the new version of each scope.

        Raises:
            AppendConflict: a scope is not at the expected version. Nothing was stored.
            PayloadTooLarge, AppendFailed, LogUnavailable: nothing was stored.
            AppendUnknown: it may have been.
        """
        states = {self._key(write.scope): self._drafts(write, label) for write in writes}
        await add_belongings(self._core, self._session_id, *states)
        index: dict[Key[Any], list[Draft]] = {
            self._share(digest): [encode(agentshares.kind, shared)] for digest, shared in shares
        }
        if listed := [Listed(write.scope) for write in writes if write.is_first]:
            agents = agentlist.kind(self._name)
            index[agents] = [encode(agents.kind, each) for each in listed]

        def decision(*all_at: At) -> dict[Key[Any], Decided]:
            for write, at in zip(writes, all_at, strict=True):
                if at.head != write.expected:
                    subject = self._core.subject(agentstates.kind, self._name, write.scope)
                    raise AppendConflict(subject.name, write.expected, at.head)
            return {key: Decided(drafts) for key, drafts in (states | index).items()}

        stored = await decide_drafts(self._core, list(states), decision)
        return {write.scope: stored[self._key(write.scope)].seq for write in writes}

    async def remove(self, scope: str) -> None:
        """Delete a scope, and revoke the tokens that open it. Errors as `Store.delete`."""
        await self._journal.erase(self._key(scope))

    async def opened_by(self, digest: str) -> Shared | None:
        """Return what a token opens as of now; None if it is unknown, revoked or has expired."""
        found = await self._journal.items(
            self._share(digest), limit=1, newest_first=True, consistency="strong"
        )
        if not found or isinstance(found[0].record, Revoked):
            return None
        shared: Shared = found[0].record
        scope = await self._core.read(
            agentstates.kind, self._name, shared.scope, consistency="strong"
        )
        shard = self._core.subject(agentstates.kind, self._name, shared.scope).shard
        if found[0].position.shards[shard].seq < scope.cleared_at:
            return None  # what it opened was deleted
        has_expired = shared.ttl and found[0].recorded_at + shared.ttl <= self._core.now()
        return None if has_expired else shared

    async def revoke(self, digest: str) -> None:
        """Revoke a token. Errors as `commit`."""
        await self._journal.decide(self._share(digest), lambda _: [Revoked()])

    async def moment(self) -> int:
        """Return the version of this moment: each turn is at or before it, or after, as a whole."""
        shard = self._core.subject(agentlist.kind, self._name).shard
        return (await self._core.forked_log.heads())[shard]

    async def scopes(self) -> list[str]:
        """Return the scopes that have had state, in the order of their first turns."""
        return list(await self._journal.view(agentlist.kind(self._name), consistency="strong"))

    async def commits(self, scope: str) -> AsyncGenerator[Commit]:
        """Yield the turns of a scope so far, in order, from its first."""
        async with aclosing(self._read(start(agentstates.kind), scope, 0)) as commits:
            async for _, commit in commits:
                if commit is not None:
                    yield commit

    async def watch(self, scope: str, after: int | None) -> AsyncGenerator[Commit]:
        """Yield the turns after a version, then each new one; None: only new ones."""
        subject = self._core.subject(agentstates.kind, self._name, scope)
        folded, reached = start(agentstates.kind), 0
        async with aclosing(self._core.advances(self._key(scope))) as heads:
            async for head in heads:
                after = head if after is None else after
                while reached < head:
                    try:
                        async with aclosing(self._read(folded, scope, reached)) as commits:
                            async for reached, commit in commits:  # noqa: B007 - for the next
                                if commit is not None and commit.version > after:
                                    yield commit
                        break
                    except LogUnavailable as error:
                        _log.info("watching %s: %s; waiting for the log", subject.name, error)
                        await asyncio.sleep(_RETRY_SECONDS)

    async def _read(
        self, folded: Folded[AgentState], scope: str, after: int
    ) -> AsyncGenerator[tuple[int, Commit | None]]:
        """Fold what follows `after`; yield each sequence, with the turn that ends there."""
        subject = self._core.subject(agentstates.kind, self._name, scope)
        async with aclosing(self._core.forked_log.read(subject, after=after)) as pages:
            async for records in pages:
                for record in records:
                    for envelope in record.envelopes:
                        yield record.seq, _folded(folded, envelope, subject)

    def _key(self, scope: str) -> Key[AgentState]:
        return agentstates.kind(self._name, scope)

    def _drafts(self, write: Write, label: str) -> list[Draft]:
        return [encode(agentstates.kind, turned) for turned in _turns(write.changes, label)]

    def _share(self, digest: str) -> Key[Any]:
        return agentshares.kind(self._name, digest)


def _turns(changes: Sequence[Change], label: str) -> list[Turned]:
    """The records of one turn: in parts, if it is large."""
    parts: list[list[Change]] = [[]]
    size = 0
    for change in changes:
        for piece in _pieces(change):
            taken = len(piece.delta) + len(piece.key)
            if parts[-1] and size + taken > _PART_BYTES:
                parts.append([])
                size = 0
            parts[-1].append(piece)
            size += taken
    turn = secrets.token_hex(8) if len(parts) > 1 else ""
    turns = [Turned(tuple(part), turn, partial=True) for part in parts[:-1]]
    return [*turns, Turned(tuple(parts[-1]), turn, label)]


def _pieces(change: Change) -> Iterator[Change]:
    if len(change.delta) <= _PART_BYTES:
        yield change
        return
    for part in cut(bytes(change.delta), _PART_BYTES):
        yield msgspec.structs.replace(change, delta=msgspec.Raw(_encode(part)))


def _folded(folded: Folded[AgentState], envelope: Recorded, subject: Subject) -> Commit | None:
    """Fold an envelope, and return the turn that it completes."""
    before = dict(folded.state.entries)
    try:
        if not step(agentstates.kind, folded, envelope):
            return None
    except msgspec.MsgspecError as fault:
        raise LogCorrupt(subject.name, envelope.seq, str(fault)) from fault
    after = folded.state.entries
    keys = {
        key: (before.get(key), after.get(key))
        for key in [*before, *(key for key in after if key not in before)]
        if before.get(key) is not after.get(key)
    }
    if not keys:
        return None
    label = "cleared" if envelope.type == CLEARED else load(Turned, envelope.payload).label
    return Commit(envelope.seq, envelope.ts, label, keys)
