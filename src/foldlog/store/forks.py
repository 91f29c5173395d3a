"""Forks: a new session that goes on from a past point of another, and copies nothing.

One atomic append makes a fork. In each of its subjects stands an envelope that leads to the
origin's, up to a position (`foldlog.log.forks`); in its lineage, where it comes from; in the
origin's lineage, that it is there. Of what the origin holds, nothing changes.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import Any

from foldlog.envelope import CLEARED, FORKED, draft, upsert_id
from foldlog.errors import (
    ConfigurationError,
    PastErased,
    SessionExists,
    UnknownMoment,
)
from foldlog.kind import Key, Kind
from foldlog.log import moments
from foldlog.log.forks import Forked
from foldlog.log.port import Append
from foldlog.position import LogPosition
from foldlog.store.lineages import Lineages
from foldlog.store.moments import When, named
from foldlog.store.operation import operation
from foldlog.store.payloads import dump
from foldlog.store.primitives import At, Decided
from foldlog.subjects import Subject, checked_id
from foldlog_projections import lineage
from foldlog_projections.lineage import Began, Fork, Lineage


class Forks(Lineages):
    """Makes forks."""

    @operation(writes=True)
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
        await self.settle()
        parent = self.subject(lineage.kind, checked_id(session_id, "session_id"))
        child = self._fork_subject(parent, into)
        position = await self._fork_position(at)
        self._check_not_cleared(await self.lineage_of(session_id, "strong"), parent, position)
        await self._check_held_then(session_id, position)
        others = self._fork_appends(session_id, child.keys[0], position)

        def begin(at: At) -> dict[Key[Any], Decided]:
            self._check_not_cleared(at.folded.state, parent, position)
            forked = draft(lineage.FORKED, dump(Fork(child.keys[0])), id=f"forked:{child.keys[0]}")
            return {lineage.kind(session_id): Decided([forked], child.keys[0])}

        async def check() -> None:
            if await self._was_used(others):
                raise SessionExists(child.keys[0])

        await self.decide_drafts([lineage.kind(session_id)], begin, also=others, on_conflict=check)
        return child.keys[0]

    def _check_not_cleared(self, state: Lineage, parent: Subject, position: LogPosition) -> None:
        if state.cleared_at > position.shards[parent.shard].seq:
            raise PastErased(parent.keys[0], f"it was cleared at sequence {state.cleared_at}")

    async def _fork_position(self, at: When | None) -> LogPosition:
        log = self.forked_log
        if at is None:
            return await moments.head(log)
        return (await moments.resolve(log, named(at, log.namespace))).position

    def _fork_subject(self, parent: Subject, into: str | None) -> Subject:
        wanted = f"{parent.keys[0]}-{secrets.token_hex(4)}" if into is None else into
        checked_id(wanted, "into")
        names = itertools.chain([wanted], (f"{wanted}-{n}" for n in itertools.count(1)))
        subjects = (self.subject(lineage.kind, name) for name in names)
        child = next(subject for subject in subjects if subject.shard == parent.shard)
        if into not in (None, *child.keys):
            raise ConfigurationError(
                f"a fork is on the shard of its origin, and session {into!r:.80} would not be; "
                f"{child.keys[0]!r:.80} would, and None chooses one"
            )
        return child

    async def _check_held_then(self, session_id: str, position: LogPosition) -> None:
        past = self.log_at(position)
        lasts = await asyncio.gather(
            *(past.last(self.subject(each, session_id)) for each in self._carried)
        )
        held = [last for last in lasts if last and last.envelopes[-1].type not in (CLEARED, FORKED)]
        if not held:
            raise UnknownMoment(str(position), f"{session_id!r:.80} held nothing then")

    @property
    def _carried(self) -> list[Kind[Any]]:
        """What a fork takes along: all that is a session's, by its id alone."""
        return [k for k in self.kinds_of("session") if len(k.keys) == 1]

    def _fork_appends(self, session_id: str, child: str, position: LogPosition) -> list[Append]:
        reach = position.shards[self.subject(lineage.kind, session_id).shard]
        began = dump(Began(session_id, str(position)))
        shared = dump(Forked((session_id,), reach.seq, reach.index))
        first = draft(lineage.BEGAN, began, id=upsert_id(began))
        return [
            Append(self.subject(lineage.kind, child), (first,), 0),
            *(
                Append(self.subject(k, child), (draft(FORKED, shared, id=upsert_id(shared)),), 0)
                for k in self._carried
            ),
        ]

    async def _was_used(self, appends: list[Append]) -> bool:
        lasts = await asyncio.gather(*(self.forked_log.last(append.subject) for append in appends))
        return any(last is not None for last in lasts)
