"""Erasure: a session is cleared, and whether nothing of it can be read is looked for, not assumed.

1. List what there is: views, artifacts, blobs. 2. Clear it. 3. Read all of it again in every way:
views, raw records, snapshots, bytes. 4. Look for parts of it in the embedded server's directory.
"""

from __future__ import annotations

import asyncio
import math
import mmap
from collections import Counter
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from foldlog.envelope import CLEARED, FORKED
from foldlog.errors import LogCorrupt
from foldlog.kind import Key
from foldlog.store.artifacts import POINTER
from foldlog.store.operation import operation
from foldlog.store.references import session_keys
from foldlog.store.removal import Removal
from foldlog.store.scopes import claim_of, contents, is_own
from foldlog.subjects import Subject
from foldlog.views.fold import readable
from foldlog_projections import artifacts, lineage
from foldlog_projections.artifacts import Held, Saved
from foldlog_projections.blobs import Claim

_LOOKED_FOR: Final = 1024 * 1024
"""Bytes up to which an artifact is read, so that a part of it can be looked for in files."""

_LENGTH: Final = 96
"""Bytes of a part: more than a SHA-256 in hexadecimal, which stays in the subject of a content."""

_SHORTEST: Final = 16
_MOST: Final = 256


@dataclass(frozen=True, slots=True)
class Erased:
    """What `erase_session` removed, and what it found afterwards.

    Attributes:
        session_id: the session.
        removed: envelopes removed, by kind.
        payload_bytes: the bytes of their payloads.
        artifacts: artifacts removed.
        artifact_bytes: the bytes of these artifacts.
        traces: the traces that were removed with the session.
        generation: the sequence of the session's tombstone.
        looked_at: how many views were read back.
        readable: what can still be read: nothing, unless somebody saved meanwhile.
        on_disk: parts of the session that files of the embedded server's data directory hold: 0,
            unless somebody else has saved the same. None: nothing was looked for, because the
            server is elsewhere or there was nothing to remove.
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


class Fragments:
    """Parts of at most 96 bytes; 256 of them are looked for, evenly chosen."""

    def __init__(self) -> None:
        self._parts: dict[bytes, None] = {}

    def add(self, data: bytes) -> None:
        """Take a part of `data`, if it is long enough."""
        if len(data) >= _SHORTEST:
            # Its end: payloads of one type begin alike.
            self._parts[data[-_LENGTH:]] = None

    def found_below(self, directory: Path) -> int | None:
        """Return how many parts stand in files below `directory`; None if there are no parts.

        Reads all files: blocks. One that goes meanwhile holds nothing any more.
        """
        if not self._parts:
            return None
        parts = list(self._parts)
        looked_for = left = set(parts[:: math.ceil(len(parts) / _MOST)])
        for path in directory.rglob("*"):
            try:
                if path.is_file() and path.stat().st_size:
                    left = left - _found(path, left)
            except FileNotFoundError:
                continue
        return len(looked_for) - len(left)


def _found(path: Path, parts: set[bytes]) -> set[bytes]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return {part for part in parts if content.find(part) >= 0}


@dataclass(slots=True)
class _Survey:
    """What there is of a session. `claims` are those of artifacts and values on their copies."""

    views: list[Key[Any]]
    pointers: list[Subject] = field(default_factory=list)
    artifacts: list[Saved] = field(default_factory=list)
    claims: list[tuple[str, Claim]] = field(default_factory=list)
    removed: Counter[str] = field(default_factory=Counter)
    payload_bytes: int = 0
    fragments: Fragments = field(default_factory=Fragments)


class Erasure(Removal):
    """Erases sessions, and shows it."""

    @operation(writes=True)
    async def erase_session(self, session_id: str) -> Erased:
        """Clear a session, then read back all that was there, and report what was found.

        It removes what `clear_session` removes. It is for operators: it reads the whole session
        first. Erasing again is safe, and removes the bytes of late writers, which no reader sees.

        Args:
            session_id: the session.

        Returns:
            What was removed, what can still be read (`readable`), and what files hold (`on_disk`).

        Raises:
            InvalidId: the id is empty.
            SessionHasForks: forks still share the session. Nothing was removed.
            ConfigurationError: the server denies deletes, or a spool file cannot be written. Some
                may remain.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; erase again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.

        Examples:
            >>> await store.save_memory_state("acme:ann:trip", {"n": 1})
            >>> erased = await store.erase_session("trip")
            >>> erased.removed["memory"], erased.readable
            (1, ())
            >>> await store.load_memory_state("acme:ann:trip") is None
            True
        """
        survey = await self._survey(session_id)
        await self.clear_session(session_id)
        readable = await self._read_back(survey)
        marker = await self.forked_log.last(self.subject(lineage.MARKER, session_id))
        on_disk = None
        if self.backend.server is not None:
            directory = self.backend.server.path
            on_disk = await asyncio.to_thread(survey.fragments.found_below, directory)
        trace_views = (key for key in survey.views if key.kind.owner == "trace")
        return Erased(
            session_id=session_id,
            removed=dict(sorted(survey.removed.items())),
            payload_bytes=survey.payload_bytes,
            artifacts=len(survey.artifacts),
            artifact_bytes=sum(saved.size_bytes for saved in survey.artifacts),
            traces=tuple(dict.fromkeys(key.keys[0] for key in trace_views)),
            generation=marker.seq if marker is not None else 0,
            looked_at=len(survey.views) + len(survey.pointers),
            readable=tuple(sorted(readable)),
            on_disk=on_disk,
        )

    async def _survey(self, session_id: str) -> _Survey:
        origin = (await self.read_what_can_be(lineage.kind, session_id)).state.origin
        survey = _Survey(await self.views_of_session(session_id, origin))
        for key in survey.views:
            if is_own(key):
                scope = key.keys[0]
                blobs = (await contents(self, scope)).blobs
                survey.claims += [(each[0], claim_of(scope, *at)) for at, each in blobs.items()]
            if key.kind is artifacts.kind:
                folded = await self.read_what_can_be(artifacts.kind, *key.keys)
                for held in list(folded.state.values()):
                    # What a fork shares with its origin stays with the origin.
                    if session_keys(held.saved.scope) == key.keys:
                        await self._survey_artifact(survey, key, held)
        for key in survey.views:
            await self._count(survey, key)
        return survey

    async def _survey_artifact(self, survey: _Survey, key: Key[Any], held: Held) -> None:
        saved, claim = held.saved, Claim(key.kind.name, key.keys, held.id)
        survey.artifacts.append(saved)
        survey.claims.append((saved.blob, claim))
        survey.pointers.append(self.subject(POINTER, saved.artifact_id))
        if saved.size_bytes > _LOOKED_FOR:
            return
        if (await self._blobs.read(saved.sha256)).claims.keys() <= {claim}:
            with suppress(LogCorrupt):  # what is damaged goes all the same
                survey.fragments.add(await self._blobs.get(saved.blob) or b"")

    async def _count(self, survey: _Survey, key: Key[Any]) -> None:
        subject = self.subject(key.kind, *key.keys)
        async with aclosing(readable(self.log, subject)) as pages:
            async for page in pages:
                for envelope in page:
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
        for name, claim in survey.claims:
            if await self._blobs.is_readable(name, claim):
                readable.add(f"the bytes {name}")
        if (snapshots := self.hot_views.snapshots) is not None:
            for subject in subjects:
                if await snapshots.store.holds(subject):
                    readable.add(f"the snapshot of {subject.name}")
        return readable
