"""Forks: a new session that goes on from a past point of another, and copies nothing.

One atomic append makes a fork. In each of its subjects stands an envelope that leads to the
origin's, up to a position (`foldlog.log.forks`); in its lineage, where it comes from; in the
origin's lineage, that it is there. Of what the origin holds, nothing changes.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import Final

from foldlog.envelope import CLEARED, FORKED, Draft, draft, upsert_id
from foldlog.errors import (
    AppendConflict,
    ConfigurationError,
    PastErased,
    SessionExists,
    UnknownMoment,
)
from foldlog.log import moments
from foldlog.log.forks import Forked
from foldlog.log.port import Append
from foldlog.position import LogPosition
from foldlog.store.belonging import OF_SESSION
from foldlog.store.journal import Journal
from foldlog.store.lineages import CONTENTION_PAUSE
from foldlog.store.moments import When, named
from foldlog.store.payloads import dump
from foldlog.subjects import Subject, checked_id
from foldlog_projections import artifacts, lineage
from foldlog_projections.lineage import Began, Fork

_CARRIED: Final = (*OF_SESSION, artifacts)


class Forks:
    """Makes forks."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def fork(
        self, session_id: str, *, at: When | None = None, into: str | None = None
    ) -> str:
        """Begin a session that holds what another one held at a moment; return its id.

        Both go on from there, each on its own. The fork's tasks, updates, steering, traces,
        trajectories and artifacts are the origin's, by the same ids, until it saves others; they
        read as the fork's own. A trace has one history, whichever session lists it: go on under a
        new trace id. Memory and pauses are no session's. A fork of a fork is like any other.

        At once, also inside `atomic()`. While it lives, its origin cannot be cleared.

        Args:
            at: as `Store.at` takes it. None: now.
            into: its id, which nobody has used before. None: a new one, that begins with the
                origin's. With several shards it has to be on the origin's.

        Raises:
            UnknownMoment: there is no such moment, or the session held nothing then.
            PastErased: the session was cleared since.
            SessionExists: `into` was used before.
            ConfigurationError: `into` is on another shard; the message names one that is not.
            InvalidId: an id is empty. In each case nothing was appended.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        await self._journal.settle()
        parent = self._journal.subject(lineage, checked_id(session_id, "session_id"))
        child = self._child(parent, into)
        position = await self._position(at)
        while True:
            # 1. Read, strongly. 2. See that the session can be forked as of that moment. 3. Append
            # where the reading ended: if it was cleared in between, look again.
            folded, head = await self._journal.read_at(lineage, session_id)
            cleared_at = folded.state.cleared_at
            if cleared_at > position.shards[parent.shard].seq:
                raise PastErased(session_id, f"it was cleared at sequence {cleared_at}")
            await self._check_held(session_id, position)
            appends = self._appends(session_id, child.keys[0], position, head)
            try:
                seqs = await self._journal.log.append(appends, atomic=True)
            except AppendConflict as conflict:
                if await self._was_used(appends[1:]):
                    raise SessionExists(child.keys[0]) from None
                if conflict.actual is None:
                    await asyncio.sleep(CONTENTION_PAUSE)
                continue
            for append, seq in zip(appends, seqs, strict=True):
                self._journal.views.acked(append.subject, seq)
            return child.keys[0]

    async def _position(self, at: When | None) -> LogPosition:
        log = self._journal.log
        if at is None:
            return await moments.head(log)
        return (await moments.resolve(log, named(at, log.namespace))).position

    def _child(self, parent: Subject, into: str | None) -> Subject:
        wanted = f"{parent.keys[0]}-{secrets.token_hex(4)}" if into is None else into
        checked_id(wanted, "into")
        names = itertools.chain([wanted], (f"{wanted}-{n}" for n in itertools.count(1)))
        subjects = (self._journal.subject(lineage, name) for name in names)
        child = next(subject for subject in subjects if subject.shard == parent.shard)
        if into not in (None, *child.keys):
            raise ConfigurationError(
                f"a fork is on the shard of its origin, and session {into!r:.80} would not be; "
                f"{child.keys[0]!r:.80} would, and None chooses one"
            )
        return child

    async def _check_held(self, session_id: str, position: LogPosition) -> None:
        past = self._journal.log_at(position)
        lasts = await asyncio.gather(
            *(past.last(self._journal.subject(each, session_id)) for each in _CARRIED)
        )
        held = [last for last in lasts if last and last.envelopes[-1].type not in (CLEARED, FORKED)]
        if not held:
            raise UnknownMoment(str(position), f"{session_id!r:.80} held nothing then")

    def _appends(
        self, session_id: str, child: str, position: LogPosition, head: int
    ) -> list[Append]:
        parent = self._journal.subject(lineage, session_id)
        reach = position.shards[parent.shard]
        began, forked = dump(Began(session_id, str(position))), dump(Fork(child))
        shared = dump(Forked((session_id,), reach.seq, reach.index))
        return [
            _append(parent, draft(lineage.FORKED, forked, id=f"forked:{child}"), head),
            _append(
                self._journal.subject(lineage, child),
                draft(lineage.BEGAN, began, id=upsert_id(began)),
            ),
            *(
                _append(
                    self._journal.subject(each, child), draft(FORKED, shared, id=upsert_id(shared))
                )
                for each in _CARRIED
            ),
        ]

    async def _was_used(self, appends: list[Append]) -> bool:
        lasts = await asyncio.gather(
            *(self._journal.log.last(append.subject) for append in appends)
        )
        return any(last is not None for last in lasts)


def _append(subject: Subject, envelope: Draft, expect: int = 0) -> Append:
    return Append(subject, (envelope,), expect)
