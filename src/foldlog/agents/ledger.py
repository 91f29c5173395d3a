"""State on the log: a subject a scope, a turn an append."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from foldlog.agents.backend import Commit, Loaded, Write
from foldlog.envelope import CLEARED, Recorded, draft, upsert_id
from foldlog.errors import AppendConflict, AppendUnknown, LogCorrupt, LogUnavailable
from foldlog.log.port import Append
from foldlog.store.guards import restoring
from foldlog.store.payloads import dump, load
from foldlog.store.primitives import Primitives
from foldlog.store.redaction import Redaction
from foldlog.subjects import Subject
from foldlog.views import Consistency
from foldlog_projections import agentlist, agentshares, agentstates
from foldlog_projections.agentlist import Listed
from foldlog_projections.agentshares import Shared
from foldlog_projections.agentstates import AgentState, Change, Turned
from foldlog_projections.delta import pieces
from foldlog_projections.fold import Folded, start, step

_log: Final = logging.getLogger("foldlog")

_RETRY_SECONDS = 1.0
"""How long a watcher waits for a log that has just been there and is not."""

_CONTENTION_PAUSE: Final = 0.002
"""Seconds to let the write that a server saw in flight settle before trying again."""

_PART_BYTES: Final = 128 * 1024
"""So that a part fits into a message of any server, and several into a record."""

_native: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder()
_encode: Final = msgspec.msgpack.Encoder().encode


class LogBackend:
    """The scopes of one manager, on the log of a store.

    All its subjects begin with the manager's name, so that they are on one shard, and a turn may
    change several scopes at once.
    """

    def __init__(self, journal: Primitives, name: str) -> None:
        self._journal = journal
        self._name = name

    @property
    def redaction(self) -> Redaction:
        """See the protocol."""
        return self._journal.redaction

    async def load(self, scope: str, consistency: Consistency) -> Loaded:
        """See the protocol."""
        folded, head = await self._journal.read_at(
            agentstates.kind, self._name, scope, consistency=consistency
        )
        # The entries never change, but which they are does.
        return Loaded(head, dict(folded.state.entries))

    async def commit(
        self, writes: Sequence[Write], shares: Sequence[tuple[str, Shared]], label: str
    ) -> dict[str, int]:
        """See the protocol."""
        appends = [self._append(write, label) for write in writes]
        for digest, shared in shares:
            subject = self._journal.subject(agentshares.kind, self._name, digest)
            appends.append(_upserts(subject, agentshares.SHARED, [shared]))
        listed = [Listed(write.scope) for write in writes if write.is_first]
        if listed:
            subject = self._journal.subject(agentlist.kind, self._name)
            appends.append(_upserts(subject, agentlist.LISTED, listed))
        while True:
            try:
                seqs = await self._journal.forked_log.append(appends, atomic=True)
            except AppendConflict as conflict:
                if conflict.actual is not None and len(writes) == 1:
                    raise
                # Of several the server does not say which. And where it saw a write in flight,
                # that may have come to nothing.
                await asyncio.sleep(_CONTENTION_PAUSE)
                await self._check(writes)
                continue
            except (AppendUnknown, asyncio.CancelledError):
                # Reads are how the caller finds out, so the next ones ask the log.
                for append in appends:
                    self._journal.hot_views.unsettled(append.subject)
                raise
            break
        for append, seq in zip(appends, seqs, strict=True):
            self._journal.hot_views.acked(append.subject, seq)
        return {write.scope: seq for write, seq in zip(writes, seqs, strict=False)}

    async def opened_by(self, digest: str) -> Shared | None:
        """See the protocol. The log itself is asked, so that a revocation holds at once."""
        folded = await self._journal.read(
            agentshares.kind, self._name, digest, consistency="strong"
        )
        item = folded.state
        if item is None or item.type == agentshares.REVOKED:
            return None
        shared = _shared(item)
        expired = shared.ttl and item.recorded_at + shared.ttl <= self._journal.now()
        return None if expired else shared

    async def revoke(self, digest: str) -> None:
        """See the protocol."""
        subject = self._journal.subject(agentshares.kind, self._name, digest)
        body = b"\x80"
        revoked = draft(agentshares.REVOKED, body, id=upsert_id(body))
        append = Append(subject, (revoked,))
        [seq] = await self._journal.forked_log.append([append], atomic=True)
        self._journal.hot_views.acked(subject, seq)

    async def moment(self) -> int:
        """See the protocol."""
        shard = self._journal.subject(agentlist.kind, self._name).shard
        return (await self._journal.forked_log.heads())[shard]

    async def scopes(self) -> list[str]:
        """See the protocol."""
        folded = await self._journal.read(agentlist.kind, self._name, consistency="strong")
        return list(folded.state)

    async def commits(self, scope: str) -> AsyncGenerator[Commit]:
        """See the protocol. Reads the scope's subject from its beginning."""
        async with aclosing(self._read(start(agentstates.kind), scope, 0)) as commits:
            async for _, commit in commits:
                if commit is not None:
                    yield commit

    async def watch(self, scope: str, since: int | None) -> AsyncGenerator[Commit]:
        """See the protocol. Ends when the store is closed: StoreClosed."""
        subject = self._journal.subject(agentstates.kind, self._name, scope)
        folded, reached = start(agentstates.kind), 0
        async with aclosing(self._journal.hot_views.advances(agentstates.kind, subject)) as heads:
            async for head in heads:
                since = head if since is None else since
                while reached < head:
                    try:
                        async with aclosing(self._read(folded, scope, reached)) as commits:
                            async for reached, commit in commits:  # noqa: B007 - for the next
                                if commit is not None and commit.version > since:
                                    yield commit
                        break
                    except LogUnavailable as error:
                        _log.info("watching %s: %s; waiting for the log", subject.name, error)
                        await asyncio.sleep(_RETRY_SECONDS)

    async def _read(
        self, folded: Folded[AgentState], scope: str, after: int
    ) -> AsyncGenerator[tuple[int, Commit | None]]:
        """Fold what follows in, and yield how far that has come, with each turn on the way."""
        subject = self._journal.subject(agentstates.kind, self._name, scope)
        async with aclosing(self._journal.forked_log.read(subject, after=after)) as pages:
            async for records in pages:
                for record in records:
                    for envelope in record.envelopes:
                        yield record.seq, _folded(folded, envelope, subject)

    async def _check(self, writes: Sequence[Write]) -> None:
        for write in writes:
            _, head = await self._journal.read_at(agentstates.kind, self._name, write.scope)
            if head != write.expected:
                subject = self._journal.subject(agentstates.kind, self._name, write.scope)
                raise AppendConflict(subject.name, write.expected, head)

    def _append(self, write: Write, label: str) -> Append:
        subject = self._journal.subject(agentstates.kind, self._name, write.scope)
        drafts = [
            draft(agentstates.TURNED, body, id=upsert_id(body))
            for body in map(dump, _turns(write.changes, label))
        ]
        return Append(subject, tuple(drafts), write.expected)


def _upserts(subject: Subject, type: str, payloads: Sequence[msgspec.Struct]) -> Append:
    drafts = [draft(type, body, id=upsert_id(body)) for body in map(dump, payloads)]
    return Append(subject, tuple(drafts))


def _turns(changes: Sequence[Change], label: str) -> list[Turned]:
    """The envelopes of one turn: in parts, if a lot has changed."""
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
    for piece in pieces(_native.decode(change.delta), _PART_BYTES):
        yield msgspec.structs.replace(change, delta=msgspec.Raw(_encode(piece)))


def _folded(folded: Folded[AgentState], envelope: Recorded, subject: Subject) -> Commit | None:
    """Fold an envelope in, and return the turn that it completes."""
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


@restoring
def _shared(item: Recorded) -> Shared:
    return load(Shared, item.payload)
