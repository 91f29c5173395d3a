"""Erasure: a session is cleared, and whether nothing of it can be read is looked for, not assumed.

1. See what there is: its subjects, raw, and what its artifacts and snapshots are called.
2. Clear it.
3. Ask for all of it again, every way a reader has: views, raw records, snapshots, artifact bytes.
4. Where the server's files can be seen, look whether they still hold parts of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from foldlog.envelope import CLEARED, FORKED
from foldlog.kind import Key
from foldlog.store.artifacts import POINTER
from foldlog.store.belonging import MARKER
from foldlog.store.clearing import Clearing
from foldlog.store.fragments import Fragments
from foldlog.store.operation import operation
from foldlog.store.scopes import scope_of_session
from foldlog.subjects import Subject
from foldlog_projections import artifacts, scoped, scopes, traces, trajectory as trajectories
from foldlog_projections.artifacts import Held

_LOOKED_FOR: Final = 1024 * 1024
"""Bytes up to which an artifact is read, so that a part of it can be looked for in files."""


class Erased(NamedTuple):
    """What `erase_session` removed, and what it found afterwards.

    `removed` counts envelopes by family. `artifact_bytes` and `payload_bytes` in bytes.
    `generation` is the sequence at which the session's tombstone stands now. `looked_at` counts
    subjects, `readable` names what could still be read, which is nothing unless somebody has
    saved meanwhile. `on_disk` counts the parts of it that the embedded server's files still hold,
    out of reach of every request; None where the files cannot be seen.
    """

    session_id: str
    removed: dict[str, int]
    payload_bytes: int
    artifacts: int
    artifact_bytes: int
    traces: tuple[str, ...]
    generation: int
    looked_at: int
    readable: tuple[str, ...]
    on_disk: int | None


@dataclass(slots=True)
class _Survey:
    """What there is of a session. `values` are the blobs of its scope."""

    views: list[Key[Any]]
    traces: tuple[str, ...]
    pointers: list[Subject] = field(default_factory=list)
    blobs: dict[str, int] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)
    removed: Counter[str] = field(default_factory=Counter)
    payload_bytes: int = 0
    fragments: Fragments = field(default_factory=Fragments)


class Erasure(Clearing):
    """Erases sessions, and shows it."""

    @operation(writes=True)
    async def erase_session(self, session_id: str) -> Erased:
        """Clear a session as `clear_session`, then read back all that was there.

        For operators: it reads the whole session first. Erasing again is safe, and removes the
        bytes of late writers, which no reader sees but the log may have stored.

        Raises:
            InvalidId: the id is empty.
            LogUnavailable, LogCorrupt, AppendUnknown: some may remain; erasing again is safe.
        """
        survey = await self._surveyed(session_id)
        await self.clear_all_of(session_id)
        readable = await self._read_back(survey)
        marker = await self.forked_log.last(self.subject(MARKER, session_id))
        on_disk = None
        if self._server is not None:
            directory = self._server.path / "jetstream"
            on_disk = await asyncio.to_thread(survey.fragments.found_below, directory)
        return Erased(
            session_id=session_id,
            removed=dict(sorted(survey.removed.items())),
            payload_bytes=survey.payload_bytes,
            artifacts=len(survey.blobs),
            artifact_bytes=sum(survey.blobs.values()),
            traces=survey.traces,
            generation=marker.seq if marker is not None else 0,
            looked_at=len(survey.views) + len(survey.pointers),
            readable=tuple(sorted(readable)),
            on_disk=on_disk,
        )

    async def _surveyed(self, session_id: str) -> _Survey:
        listed = await self.read(traces.kind, session_id, consistency="strong")
        every = (*listed.state, f"session:{session_id}")
        # What a fork shares with its origin stays with the origin.
        origin = (await self.lineage_of(session_id, "strong")).origin
        shared = await self.inherited_traces(origin)
        names = tuple(name for name in every if name not in shared)
        views: list[Key[Any]] = [
            *(kind(name) for name in names for kind in self.kinds_of("trace")),
            *(trajectories.kind(session_id, name) for name in every),
        ]
        for kind in self.kinds_of("session"):
            if len(kind.keys) == 1:
                views.append(kind(session_id))
            elif kind is not trajectories.kind:
                views += await self.keys(kind, (session_id,))
        scope = scope_of_session(session_id)
        index = (await self.read(scopes.kind, scope, consistency="strong")).state
        views.append(scopes.kind(scope))
        views += [scoped.kind(scope, key) for key in (*index.entries, *index.gone)]
        survey = _Survey(views, names, values=list(index.blobs))
        folded = await self.read(artifacts.kind, session_id, consistency="strong")
        own = [h for h in folded.state.values() if _session_of(h) == session_id]
        for held in own:
            survey.blobs[held.saved.blob] = held.saved.size_bytes
            survey.pointers.append(self.subject(POINTER, held.saved.artifact_id))
            survey.fragments.add(held.saved.blob.encode())
            if held.saved.size_bytes <= _LOOKED_FOR:
                survey.fragments.add(await self._blobs.get(held.saved.blob) or b"")
        for key in views:
            await self._count(survey, key)
        return survey

    async def _count(self, survey: _Survey, key: Key[Any]) -> None:
        async for page in self.log.read(self.subject(key.kind, *key.keys)):
            for envelope in (e for record in page for e in record.envelopes):
                if envelope.type not in (CLEARED, FORKED):
                    survey.removed[key.kind.name] += 1
                    survey.payload_bytes += len(envelope.payload)
                    survey.fragments.add(envelope.payload)

    async def _read_back(self, survey: _Survey) -> set[str]:
        """The names of what is not gone."""
        readable = set[str]()
        subjects = [self.subject(key.kind, *key.keys) for key in survey.views]
        for subject in (*subjects, *survey.pointers):
            async for page in self.log.read(subject):
                readable |= {
                    f"{subject.name} at sequence {record.seq}"
                    for record in page
                    if any(envelope.type != CLEARED for envelope in record.envelopes)
                }
        for key in survey.views:
            folded = await self.read(key.kind, *key.keys, consistency="strong")
            if folded.seen:
                readable.add(f"the view {key}")
        for name in (*survey.blobs, *survey.values):
            if await self._blobs.get(name) is not None:
                readable.add(f"the bytes {name}")
        return readable | await self._snapshots_of(subjects)

    async def _snapshots_of(self, subjects: Iterable[Subject]) -> set[str]:
        snapshots = self.hot_views.snapshots
        if snapshots is None:
            return set()
        return {
            f"the snapshot of {each.name}" for each in subjects if await snapshots.store.holds(each)
        }


def _session_of(held: Held) -> str | None:
    return held.saved.scope.session_id if held.saved.scope is not None else None
