"""Removing views, and all that is a session's, which stays removed when a late writer retries.

The sequence of a session's tombstone names the *generation* that begins there: the spool sends
nothing to the session whose writer did not know of it.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any, TypeVar

from foldlog.batches import side_by_side
from foldlog.envelope import CLEARED, draft
from foldlog.errors import (
    ConfigurationError,
    LogCorrupt,
    Misuse,
    PayloadError,
    SessionHasForks,
)
from foldlog.kind import Key, Kind
from foldlog.log.port import Append
from foldlog.store.blobs import LargeValues, loose_blobs
from foldlog.store.clearing import (
    Area,
    Holding,
    Named,
    OnEnvelope,
    Prefix,
    bury,
    bury_unread,
    clear,
    purge,
    where,
)
from foldlog.store.core import Capability, Core
from foldlog.store.operation import nothing, operation
from foldlog.store.ownership import (
    close_lineage,
    leave_origin,
    lineage_of,
    owned_by,
    session_kinds,
)
from foldlog.store.spool import Drafts
from foldlog.subjects import Subject
from foldlog_projections import lineage

S = TypeVar("S")


class Removal(Capability):
    """Removes single views and whole sessions, and lists sessions."""

    @functools.cached_property
    def blobs(self) -> LargeValues:
        """Large values beside the log, each of one view: `await store.blobs.put(key, data)`."""
        return LargeValues(self._core)

    @operation(nothing, writes=True)
    async def erase(
        self,
        key: Key[Any] | Kind[Any],
        *first: str,
        overwrite: bool = True,
        check: Callable[[Any], None] | None = None,
    ) -> None:
        """Erase a view with its history, or all views of a kind whose keys begin alike.

        It is then as if nothing had been saved there: no read shows it, nor any earlier moment.
        What is saved afterwards counts, also a repetition of what was erased. Erasing a view that
        holds nothing does nothing.

        Args:
            key: the view, as in `foldlog.kinds.memory("acme:ann:trip")`; or a kind.
            first: of a kind: the first keys of the views, fewer than the kind has.
            overwrite: no file holds its bytes when this returns, which takes some milliseconds for
                each record. False: the view goes at once, and the server frees the bytes when it
                next rewrites their files.
            check: called with the state that is about to go, which it does not change. If it
                raises, the error is raised and nothing is erased.

        Raises:
            InvalidId: a key is empty.
            PayloadError: the kind folds another kind's records, whose view is to be erased; or it
                has no more keys than are given.
            ConfigurationError: the store does not know the kind.
            SessionHasForks: forks share the view. Nothing was erased.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; erase again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        area: Area
        if isinstance(key, Kind):
            if not 0 < len(first) < len(key.keys):
                raise PayloadError(key.name, f"give its first keys, {len(key.keys) - 1} at most")
            self._core.subject(key, *first)
            area = Prefix(key, first)
        else:
            self._core.subject_of(key)
            area = key
        if area.kind.of is not None:
            raise PayloadError(area.kind.name, f"erase {area.kind.of.name}, which it folds")
        session_id = area.kind.session_of(area.keys)
        forks = (await lineage_of(self._core, session_id, "strong")).forks if session_id else ()
        if session_id and forks:
            raise SessionHasForks(session_id, sorted(forks))
        # A fork may read its origin's view as long as its own was not cleared.
        always = callable(area.kind.owner)
        async with self._removing([area]):
            await clear(self._core, [area], overwrite=overwrite, check=check, always=always)
        if overwrite:
            rows = area.kind.shown.rows
            self._core.forget_tables(area.kind.name, *([] if rows is None else [rows.table]))

    @asynccontextmanager
    async def _removing(self, areas: Sequence[Area]) -> AsyncIterator[None]:
        """Remove also what facades keep of the areas beside the log."""
        for each in areas:
            await self._before_removal(each)
        yield
        for each in areas:
            await self._after_removal(each)

    async def _before_removal(self, area: Area) -> None:
        """Remove what only a facade knows of, and only the area leads to."""

    async def _after_removal(self, area: Area | None) -> None:
        """Have what a facade keeps of an area beside the log forgotten; None: of all."""

    @operation(nothing, writes=True)
    async def clear_session(self, session_id: str) -> None:
        """Remove a session with all that was saved in it.

        That is its tasks, updates, steering, messages, memory (keys that end in its id) and scope;
        the traces that `list_traces` names and `session:<id>`, each with its events, bindings and
        trajectory; its artifacts; and what was saved with its `session_id`: executions, agents'
        scopes, scoped keys, pauses, and what `belong` names. A trace that only a task names stays.
        What is saved afterwards begins the session anew, also a repetition of what was removed.
        What a fork shares with its origin stays with the origin.

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
        await self._remove_session(session_id)

    async def _remove_session(
        self, session_id: str, on_envelope: OnEnvelope | None = None
    ) -> tuple[int, list[Area], list[Holding[Any]]]:
        """Clear a session; return its generation, all areas that were its, and what they held."""
        origin = await close_lineage(self._core, session_id)
        marker = self._core.subject(lineage.MARKER, session_id)
        # At once, also inside `atomic()`, as all that follows. Its sequence is the generation.
        marked = Append(marker, (draft(CLEARED, b"\xc0", id="session"),))
        [generation] = await self._core.append_at_once([marked])
        # What stands elsewhere goes afterwards: what leads there is read from what is left of it.
        # What names others goes after them, so that another clearing can finish an interrupted one.
        areas = await owned_by(self._core, session_id, origin)
        own = [each for each in areas if self._shard(each) == marker.shard]
        async with self._removing(own):
            buried = await bury(self._core, own, on_envelope=on_envelope)
            held = [each for holdings in buried.values() for each in holdings]
            naming = {each: buried[each] for each in own if each.kind.owns is not None}
            others = {each: buried[each] for each in own if each not in naming}
            await purge(self._core, others, on_envelope=on_envelope)

            def names(held: Holding[Any]) -> Iterable[Named]:
                return held.named_before if held.key in buried else held.named

            left = await owned_by(self._core, session_id, origin, by=names)
            rest = [each for each in left if each not in buried]
            for _, each in groupby(sorted(rest, key=self._turn), self._turn):
                together = list(each)
                async with self._removing(together):
                    held += await clear(self._core, together, on_envelope=on_envelope)
            await purge(self._core, naming, on_envelope=on_envelope)
        await self._forget_spooled(session_id, [each.key for each in held])
        if origin is not None:
            await leave_origin(self._core, session_id, origin)
            await clear(self._core, [lineage.kind(session_id)])
        await self._core.forked_log.purge(marker, before=generation)
        return generation, [*own, *rest], held

    def _shard(self, area: Area) -> int:
        return where(self._core, area).shard

    def _turn(self, area: Area) -> tuple[bool, int]:
        return area.kind.owns is not None, self._shard(area)

    @operation(nothing, writes=True)
    async def clear(self, namespace: str) -> None:
        """Remove everything in the namespace. It is for tests and fresh starts.

        Unlike `clear_session` it does not remember what there was. What is saved meanwhile may
        stay.

        Args:
            namespace: the store's namespace, by its name.

        Raises:
            Misuse: the store is of another namespace. Nothing was removed.
            ConfigurationError: the server denies deletes, or a spool file cannot be written.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; clear again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        own = self._core.log.namespace.name
        if namespace != own:
            raise Misuse(f"this store is of namespace {own!r:.80}, not {namespace!r:.80}")
        await self._core.settle()
        log = self._core.forked_log
        # Up to here every record belongs to a subject that is listed next. One whose first record
        # comes later may not be, and must not go without a tombstone: others may show it.
        heads = await log.heads()
        subjects = list(await log.subjects())
        blobs = self._core.backend.blobs
        stored = await blobs.names(partial=True)
        # Saves under way store these again when their records are there.
        loose = await loose_blobs(self._core, stored)
        await side_by_side(loose, lambda each: blobs.delete(*each))
        sessions = {subject.keys[0] for subject in subjects if is_of_session(self._core, subject)}
        markers = [log.namespace.subject(lineage.MARKER, session_id) for session_id in sessions]
        await bury_unread(self._core, dict.fromkeys([*subjects, *markers]))
        named = {*stored} - {*loose}
        await side_by_side(named, lambda each: blobs.delete(*each))
        for shard, head in enumerate(heads):
            await log.purge(shard, before=head + 1)
        await self._core.hot_views.drop_snapshots()
        self._core.forget_tables()
        await self._after_removal(None)

    @operation(list)
    async def sessions(self) -> list[str]:
        """Return the ids of all sessions that hold something, sorted.

        It is for operators: its cost grows with the number of views.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return sorted(await session_sizes(self._core))

    async def _forget_spooled(self, session_id: str, views: Iterable[Key[Any]]) -> None:
        """Remove what is a session's from spool files: what was refused, and of killed writers."""
        place = self._core.backend.place
        if place is None:
            return
        known = {(key.kind.family, key.keys) for key in views}

        def is_erased(drafts: Drafts) -> bool:
            kind = self._core.kinds.get(drafts.family)
            is_own = kind is not None and kind.session_of(drafts.keys) == session_id
            return is_own or (drafts.family, drafts.keys) in known

        try:
            await asyncio.to_thread(place.erase, is_erased)
        except OSError as error:
            raise ConfigurationError(
                f"the spool directory {place.directory} may still hold what was cleared "
                f"({error}): see to it that it can be written, and clear again"
            ) from error


async def session_sizes(core: Core) -> dict[str, int]:
    """Return the number of stored records of each session that holds something, by session id.

    It counts the views that have the session's id; one record may hold several envelopes. A number
    that grows says that something was saved. Errors as `Removal.sessions`.
    """
    subjects = await core.forked_log.subjects()
    cleared = {subject.keys[0] for subject in subjects if subject.family == lineage.MARKER}
    known: dict[str, dict[str, int]] = {}
    for subject, records in subjects.items():
        if is_of_session(core, subject):
            known.setdefault(subject.keys[0], {})[subject.family] = records
    # A single record may be the tombstone of the only view that there was.
    doubtful = [n for n, held in known.items() if n in cleared or [*held.values()] == [1]]
    found = known.keys() - set(doubtful)
    held = await side_by_side(doubtful, lambda name: _holds(core, name, known[name]))
    found |= {each for each, holds in zip(doubtful, held, strict=True) if holds}
    return {name: sum(known[name].values()) for name in sorted(found)}


async def _holds(core: Core, session_id: str, families: Container[str]) -> bool:
    kinds = [kind for kind in session_kinds(core) if kind.name in families]
    try:
        folds = await asyncio.gather(
            *(core.read(kind, session_id, consistency="strong") for kind in kinds)
        )
    except LogCorrupt:
        return True
    return any(folded.state for folded in folds)


def is_of_session(core: Core, subject: Subject) -> bool:
    """Return whether a subject is a view that a session's id alone names."""
    # Artifacts without a session stand under two keys.
    return len(subject.keys) == 1 and any(
        subject.family == kind.name for kind in session_kinds(core)
    )
