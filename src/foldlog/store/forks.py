"""Forks: a new session that goes on from a past point of another, and copies nothing.

An envelope in each of its subjects leads to the origin's, up to a position (`foldlog.log.forks`),
and one stands in either lineage. One atomic append makes them; where a kind has many views of the
session, the lineages come first, so that the origin names what a crash leaves. The origin's views
do not change.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import secrets
from collections.abc import Iterable
from contextlib import aclosing, suppress
from typing import Any

from foldlog.envelope import CLEARED, FORKED, Draft, draft, upsert_id
from foldlog.errors import (
    AppendFailed,
    LogUnavailable,
    Misuse,
    PastErased,
    SessionExists,
    UnknownMoment,
)
from foldlog.kind import Key
from foldlog.log import moments
from foldlog.log.forks import DEEPEST, Forked, origins
from foldlog.log.moments import Event
from foldlog.log.past import until
from foldlog.log.port import Append, Log, Record
from foldlog.models import StateUpdate, SteeringEvent, StoredEvent
from foldlog.position import LogPosition
from foldlog.store.clearing import Prefix, where
from foldlog.store.decisions import At, Decided, decide_drafts
from foldlog.store.events import place_of_event
from foldlog.store.operation import operation
from foldlog.store.ownership import area_of, session_kinds
from foldlog.store.payloads import dump
from foldlog.store.removal import Removal
from foldlog.store.steering import place_of_steering
from foldlog.store.updates import place_of_update
from foldlog.subjects import Namespace, Subject, checked_id
from foldlog_projections import lineage
from foldlog_projections.lineage import Began, Fork

When = LogPosition | dt.datetime | str | StateUpdate | SteeringEvent | StoredEvent
"""A moment: that position; all that was stored by that time, which has a time zone; or right after
that event was recorded, named by its id (`update_id`, `event_id`) or as the object that was saved.
By id alone the whole log is looked through.
"""


def named(when: When, namespace: Namespace) -> moments.When:
    """Return what a log is to look for."""
    match when:
        case LogPosition() | dt.datetime():
            return when
        case str():
            return Event(checked_id(when, "event id"))
        case StateUpdate():
            key, id = place_of_update(when)
        case SteeringEvent():
            key, id = place_of_steering(when)
        case StoredEvent():
            key, id = place_of_event(when)
        case _:
            raise UnknownMoment(repr(when), "name it by a position, a time or an event")
    return Event(id, namespace.subject(key.kind.name, *key.keys))


class Forks(Removal):
    """Makes forks."""

    @operation(writes=True)
    async def fork(self, session_id: str, *, at: When | None = None, to: str | None = None) -> str:
        """Begin a session that holds what another one held at a moment; return its id.

        From then on each goes its way. The fork reads its origin's runs, tasks, updates, steering,
        traces, trajectories, artifacts, memory and `Scope.session` as its own, by the same ids. A
        run of the fork is as it was at that moment: opening it there goes on from its next step. A
        trace has one history, whichever session lists it: continue under a new trace id.
        Agents, pauses and all else with ids independent of the session are listed by
        the fork, and stay when the fork is cleared. The fork is made at once, also inside
        `atomic()`. While it lives, its origin cannot be cleared.

        Args:
            session_id: the origin.
            at: a position, a datetime with a time zone, or a saved object or its id, as the method
                `at` takes it; or a step of the session's runs: "search" or "step 3" is right after
                it, "before step search" or "before step 3" right before. None: now.
            to: the fork's id, never used before and on the origin's shard. None: a new one that
                begins with the origin's.

        Raises:
            UnknownMoment: there is no such moment, or the session held nothing then.
            PastErased: the session was cleared since.
            SessionExists: `to` was used before.
            Misuse: `to` is on another shard; the message names an id that is not. Or
                the session is a fork of forks, 1,000 deep.
            InvalidId: an id is empty.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: there is no fork.
                What could not be taken back is cleared under its id, which the SessionHasForks
                names that the origin's clearing raises.
            AppendUnknown: the fork may have been made; a fork `to` a new id is safe.

        Examples:
            >>> await store.save_memory_state("acme:ann:trip", {"n": 1})
            >>> await store.save_task(foldlog.TaskState(
            ...     task_id="book", session_id="trip", status=foldlog.TaskStatus.RUNNING,
            ...     task_type=foldlog.TaskType.BACKGROUND, priority=0,
            ...     context_snapshot=foldlog.TaskContextSnapshot(session_id="trip", task_id="book"),
            ... ))
            >>> fork = await store.fork("trip")
            >>> [task.task_id for task in await store.list_tasks(fork)]
            ['book']
        """
        await self._core.settle()
        parent = self._core.subject(lineage.kind, checked_id(session_id, "session_id"))
        child = self._fork_subject(parent, to)
        name = child.keys[0]
        log = self._core.forked_log
        if isinstance(at, str):
            at = await self._moment_in(session_id, at)
        if at is None:
            position = await moments.head(log)
        else:
            position = (await moments.resolve(log, named(at, log.namespace))).position
        reach = position.shards[parent.shard]
        began = dump(Began(session_id, str(position)))

        def forked(*keys: str) -> tuple[Draft, ...]:
            body = dump(Forked(keys, reach.seq, reach.index))
            return (draft(FORKED, body, id=upsert_id(body)),)

        # Each leads to what the fork reads through to. Where a kind has many views, each does.
        began_at = Append(child, (draft(lineage.BEGAN, began, id=upsert_id(began)),), 0)
        kinds = session_kinds(self._core)
        views = [Append(self._core.subject(kind, name), forked(session_id), 0) for kind in kinds]
        keys = list[Append]()
        for area in self._branching(session_id):
            first = area.keys[0].removesuffix(session_id)
            for held in await self._keys_at(area, position):
                subject = self._core.subject(area.kind, first + name, *held[1:])
                keys.append(Append(subject, forked(*held)))

        def begin(at: At) -> dict[Key[Any], Decided]:
            if at.folded.state.cleared_at > reach.seq:
                reason = f"it was cleared at sequence {at.folded.state.cleared_at}"
                raise PastErased(session_id, reason)
            body = dump(Fork(name))  # no repeat, whatever was forked: `to` may have been used
            shares = draft(lineage.FORKED, body, id=upsert_id(body))
            return {lineage.kind(session_id): Decided([shares], name)}

        async def check_unused() -> None:
            subjects = [append.subject for append in (began_at, *views)]
            found = [await self._first(area) for area in self._branching(name)]
            if any((*found, *await self._lasts(log, subjects))):
                raise SessionExists(name)

        parents = [self._core.subject(kind, session_id) for kind in kinds]
        if len([each async for each in origins(self._core.log, parents[0])]) > DEEPEST:
            raise Misuse(
                f"session {session_id!r:.80} is a fork of forks, {DEEPEST} deep, and a fork of it "
                "could not be read: fork one that it comes from"
            )
        lasts = await self._lasts(self._core.log_at(position), parents)
        types = {e.type for each in lasts if each is not None for e in each.envelopes}
        if not keys and types <= {CLEARED, FORKED}:
            raise UnknownMoment(str(position), f"{session_id!r:.80} held nothing then")
        if to is not None:
            await check_unused()
        await decide_drafts(
            self._core,
            [lineage.kind(session_id)],
            begin,
            in_atomic="at once",
            also=[began_at] if keys else [began_at, *views],
            on_conflict=check_unused,
        )
        if keys:
            try:
                await log.append(keys)
                await self._core.append_at_once(views)  # now it is listed, with all of its keys
            except (AppendFailed, LogUnavailable):
                await self._remove_session(name)
                raise
        return name

    async def _moment_in(self, session_id: str, at: str) -> When:
        """What a text means as a moment of a session: a facade knows more than ids of events."""
        return at

    def _branching(self, session_id: str) -> list[Prefix]:
        """The areas of a session with many views of one kind."""
        every = self._core.kinds.values()
        kinds = [kind for kind in every if kind.of is None and kind.owner != "trace"]
        found = (area_of(kind, session_id) for kind in kinds)
        return [area for area in found if isinstance(area, Prefix)]

    async def _first(self, area: Prefix) -> list[Record] | None:
        """The first records of an area, tombstones included."""
        async with aclosing(self._core.log.read(where(self._core, area))) as pages:
            return await anext(pages, None)

    async def _keys_at(self, area: Prefix, position: LogPosition) -> list[tuple[str, ...]]:
        """The keys of the views of an area that held something then."""
        found = dict[str, tuple[str, ...]]()
        branch = where(self._core, area)
        # What is forked is found under its own keys, so not through the fork.
        stored = until(self._core.log.read(branch), branch, position.shards[branch.shard])
        with suppress(PastErased):  # what was erased since is no longer shared
            async with aclosing(stored) as pages:
                async for records in pages:
                    for record in records:
                        last = record.envelopes[-1]
                        subject = self._core.log.namespace.parse(record.subject)
                        keys = tuple(last.keys or ()) if subject is None else subject.keys
                        if last.type == CLEARED:
                            found.pop(record.subject, None)
                        else:
                            found[record.subject] = keys
        return [keys for keys in found.values() if keys]

    def _fork_subject(self, parent: Subject, to: str | None) -> Subject:
        wanted = f"{parent.keys[0]}-{secrets.token_hex(4)}" if to is None else to
        checked_id(wanted, "to")
        names = itertools.chain([wanted], (f"{wanted}-{n}" for n in itertools.count(1)))
        subjects = (self._core.subject(lineage.kind, name) for name in names)
        child = next(subject for subject in subjects if subject.shard == parent.shard)
        if to not in (None, *child.keys):
            raise Misuse(
                f"a fork is on the shard of its origin, and session {to!r:.80} would not be; "
                f"{child.keys[0]!r:.80} would, and None chooses one"
            )
        return child

    async def _lasts(self, log: Log, subjects: Iterable[Subject]) -> list[Record | None]:
        return await asyncio.gather(*map(log.last, subjects))
