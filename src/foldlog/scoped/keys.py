"""Keys on the log: what each holds, and what is appended to them.

A key's subject is the truth about it; all subjects of a scope are one branch of the log.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import math
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager
from itertools import chain
from typing import Any, Final

from foldlog.envelope import CLEARED, Draft, Position, Recorded
from foldlog.errors import (
    AppendConflict,
    AppendFailed,
    AppendUnknown,
    FoldlogError,
    InvalidId,
    LogCorrupt,
    LogUnavailable,
    PayloadError,
)
from foldlog.kind import Key
from foldlog.log.port import Append, Record
from foldlog.position import LogPosition
from foldlog.scoped import records
from foldlog.scoped.models import Revision, StoreOptions
from foldlog.scoped.records import Change, Held
from foldlog.scoped.scope import Scope, checked_scope
from foldlog.store.belonging import add_belongings
from foldlog.store.core import Core, core_of
from foldlog.store.decisions import append_directly, decide_drafts
from foldlog.store.payloads import encode
from foldlog.store.primitives import At, Decided
from foldlog.store.store import BaseStore
from foldlog.subjects import Branch, Subject
from foldlog.views import Consistency
from foldlog.views.latest import read_latest
from foldlog_projections.fold import Folded, start, step
from foldlog_projections.scoped import scoped
from foldlog_projections.scoped.scoped import OWN, Embedded

BLOB_BYTES: Final = 256 * 1024
"""Encoded values larger than this are blobs: a page of values stays small."""

Storing = Callable[[Scope, str, bytes], Awaitable[str]]
"""Stores the encoded value of a key as a blob if it is large; returns its name, or ""."""

Moment = Position | LogPosition | dt.datetime
"""A place on the log, or a time by its clock."""


_log: Final = logging.getLogger("foldlog")


class Keys:
    """The keys of one store's scopes, for those who read and write them."""

    def __init__(self, journal: BaseStore) -> None:
        self.journal = journal
        self.core: Core = core_of(journal)

    def subject(self, scope: Scope, key: str) -> Subject:
        """Where a key stands. Raises InvalidId: it is empty, or NUL; PayloadError: no Scope."""
        subject = self.core.subject(scoped.kind, checked_scope(scope).subject_key, key)
        if key == OWN:
            raise InvalidId("key", key, "it stands for the scope itself")
        return subject

    def own(self, scope: Scope) -> Subject:
        """Where a scope's links stand."""
        return self.core.subject(scoped.kind, scope.subject_key, OWN)

    def branch(self, scope: Scope) -> Branch:
        """All subjects of a scope."""
        return self.core.forked_log.namespace.branch(scoped.kind.name, scope.subject_key)

    def changes(self, scope: Scope, after: int = 0) -> AsyncGenerator[list[Record]]:
        """Yield pages of a scope's changes after a sequence. Errors as `Log.read`."""
        return self.core.forked_log.read(self.branch(scope), after=after)

    async def history(self, scope: Scope, key: str) -> list[Held]:
        """Return all that was written to a key, in order. Errors as `Log.read`."""
        found: list[Held] = []
        folded = start(scoped.kind)
        async with aclosing(self.core.forked_log.read(self.subject(scope, key))) as pages:
            async for page in pages:
                for envelope in chain.from_iterable(record.envelopes for record in page):
                    if not step(scoped.kind, folded, envelope):
                        continue
                    if envelope.type == CLEARED:
                        found.clear()
                    elif envelope.type not in scoped.kind.beside:
                        found.append(records.read(envelope))
        return found

    async def as_of(self, scope: Scope, key: str, at: Moment) -> Held | None:
        """Return what a key held at a moment, or None; what was over then is None."""
        log, subject = self.core.forked_log, self.subject(scope, key)
        if isinstance(at, dt.datetime) and at.tzinfo is not None:
            place: tuple[int, float] = (await log.sequence_at(subject.shard, at), math.inf)
        elif isinstance(at, LogPosition) and len(at.shards) == log.namespace.shards:
            place = at.shards[subject.shard].place
        elif isinstance(at, Position):
            place = (at.seq, at.index)
        else:
            raise PayloadError("at", f"{at!r:.80} is no position here, and no time with an offset")
        found = _read((await read_latest(log, scoped.kind, subject, upto=place)).folded)
        if found is None or found.written is None:
            return None
        if isinstance(at, dt.datetime):
            return found if found.is_there(at.timestamp()) else None
        stored = await log.stored(subject.shard, place[0])
        time = dt.datetime.fromisoformat(stored.time).timestamp() if stored is not None else 0.0
        return found if found.is_there(time) else None

    async def payload(self, scope: Scope, key: str, held: Held) -> bytes:
        """Return an encoded value, or raise LogCorrupt if its blob is gone."""
        written = held.written
        assert written is not None, "what was deleted has no value"
        if not written.blob:
            return bytes(written.value)
        view = scoped.kind(scope.subject_key, key)
        data = await self.journal.blobs.read(view, written.blob)
        if data is None:
            reason = f"the blob {written.blob} of a value is missing"
            raise LogCorrupt(scoped.kind.name, held.envelope.seq, reason)
        return data

    async def revision(
        self, scope: Scope, key: str, held: Held, payload: bytes | None = None
    ) -> Revision:
        """Return what a caller sees of an envelope; `payload`: its encoded value, if at hand."""
        if payload is None and held.written is not None:
            payload = await self.payload(scope, key, held)
        return Revision(
            key=key,
            value=None if payload is None else records.decoded(payload, held.envelope),
            version=held.version,
            position=held.envelope.position,
            recorded_at=records.time_of(held.envelope),
            options=records.options_of(held.written) if held.written else StoreOptions(),
            deleted=held.written is None,
        )

    async def last(self, scope: Scope, key: str, consistency: Consistency) -> Held | None:
        """Return what was written to a key last, or that it was deleted."""
        keys = self.subject(scope, key).keys
        return _read(await self.core.read(scoped.kind, *keys, consistency=consistency))

    async def present(
        self, scope: Scope, key: str, consistency: Consistency = "strong"
    ) -> tuple[Held | None, bytes]:
        """Return a key's last envelope and its encoded value, as of now; None if it has none."""
        held = await self.last(scope, key, consistency)
        while held is not None and held.is_there(self.core.now()):
            try:
                return held, await self.payload(scope, key, held)
            except LogCorrupt:
                # Its scope may have been cleared meanwhile: look again.
                again = await self.last(scope, key, "strong")
                if again == held:
                    raise
                held = again
        return None, b""

    @asynccontextmanager
    async def storing(self) -> AsyncIterator[Storing]:
        """Give what stores large values. If the block fails, and the log cannot come to name
        them, they are removed again.
        """
        stored: list[tuple[Key[Any], str, bytes]] = []

        async def store(scope: Scope, key: str, body: bytes) -> str:
            if len(body) <= BLOB_BYTES:
                return ""
            view = scoped.kind(scope.subject_key, key)
            name = await self.journal.blobs.put(view, body)
            stored.append((view, name, body))
            return name

        try:
            yield store
        except AppendUnknown:
            raise
        except FoldlogError:
            for view, name, _ in stored:
                await self.journal.blobs.remove(view, name)
            raise
        for each in stored:
            await self.journal.blobs.keep(*each)

    async def add_belongings(
        self, session_id: str | None, written: Iterable[tuple[Scope, str]]
    ) -> None:
        """Have keys belong to a session if one is named. Errors as `Store.belong`."""
        keys = [scoped.kind(checked_scope(scope).subject_key, key) for scope, key in written]
        await add_belongings(self.core, session_id, *keys)

    async def clear(self, scope: Scope, key: str | None = None) -> None:
        """Erase a scope, or one key of it. Errors as `Store.delete`."""
        name = checked_scope(scope).subject_key
        if key is None:
            await self.journal.erase(scoped.kind, name, overwrite=False)
        else:
            await self.journal.erase(scoped.kind(name, key))

    async def append(self, changes: list[tuple[Scope, Change]]) -> None:
        """Append changes, all or nothing."""
        drafts: dict[Subject, list[Draft]] = {}
        for scope, change in changes:
            is_link = change.key == OWN
            subject = self.own(scope) if is_link else self.subject(scope, change.key)
            drafts.setdefault(subject, []).append(change.draft)
        await append_directly(self.core, *drafts.items())

    async def add_vectors(self, scope: Scope, made: Sequence[tuple[str, int, Embedded]]) -> None:
        """Save vectors of values by key: not where its subject does not end at that sequence.

        Never part of an `atomic()` block. The next search makes the vectors that are not saved now:
        writes of others, and an unavailable log, are no error.
        """
        appends = [
            Append(self.subject(scope, key), (encode(scoped.kind, each),), seq)
            for key, seq, each in made
        ]
        try:
            await self.core.append_at_once(appends)
        except AppendConflict:
            if len(made) > 1:
                await asyncio.gather(*(self.add_vectors(scope, [each]) for each in made))
        except (AppendFailed, AppendUnknown, LogUnavailable) as error:
            _log.info("vectors of %s were not saved: %s", scope, error)

    async def decide(
        self,
        scope: Scope,
        keys: Sequence[str],
        decision: Callable[[Mapping[str, Held]], list[Change]],
    ) -> list[Change]:
        """Append the changes that a function makes of what keys hold, and return them.

        It may be called several times. Nobody has written since to the keys that it changes.
        """
        name = checked_scope(scope).subject_key
        views = {key: scoped.kind(name, key) for key in keys}

        def decide(*all_at: At) -> dict[Key[Any], Decided]:
            now = self.core.now()
            found = zip(keys, (_read(at.folded) for at in all_at), strict=True)
            held = {key: each for key, each in found if each is not None and each.is_there(now)}
            return {views[each.key]: Decided([each.draft], each) for each in decision(held)}

        decided = await decide_drafts(self.core, list(views.values()), decide)
        return [stored.value for stored in decided.values()]


def _read(folded: Folded[Recorded | None]) -> Held | None:
    """What a key holds; None if that is nothing, or it was cleared."""
    envelope = folded.state
    return None if envelope is None else records.read(envelope)
