"""The core of a store: the log, its views, blocks of saves, and what every capability is made of.

The public primitives are in `foldlog.store.primitives`.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeVar

import msgspec

from foldlog.envelope import Draft, Recorded
from foldlog.errors import (
    AppendConflict,
    AppendUnknown,
    IdTaken,
    LogCorrupt,
    LogRewound,
    LogUnavailable,
)
from foldlog.kind import Key, Kind
from foldlog.log.archive import Archiver
from foldlog.log.blobs import Blobs
from foldlog.log.embedded import EmbeddedServer
from foldlog.log.forks import ForkedLog
from foldlog.log.moments import Moment
from foldlog.log.past import PastLog
from foldlog.log.port import Append, Log
from foldlog.log.snapshots import SnapshotStore
from foldlog.position import LogPosition
from foldlog.store.operation import Calls
from foldlog.store.options import StoreOptions
from foldlog.store.payloads import encode
from foldlog.store.redaction import Redaction
from foldlog.store.spool import Outbox, Place, Spooled
from foldlog.subjects import Subject
from foldlog.views import Choose, Consistency, Views, watching
from foldlog_projections.fold import Folded, Projection, copied_fold, digest_at, step
from foldlog_projections.items import Items
from foldlog_projections.registry import KINDS

S = TypeVar("S")
T = TypeVar("T")

DECIDE_SECONDS: Final = 10.0
"""How long a decision is made again because others write, unless the caller says otherwise."""


_REPORTED_REMEMBERED: Final = 16 * 1024
"""Drafts whose lost ids were reported: more than the views in use hold."""


class Expected(NamedTuple):
    """The sequence at which a view ended when the block decided on it."""

    projection: Projection[Any]
    head: int


@dataclass(slots=True)
class _Overlay:
    """A view as it will be: a copy of its fold at `head`, and how many drafts it has applied."""

    folded: Folded[Any]
    head: int
    applied: int = 0


@dataclass(slots=True)
class Block:
    """Drafts by subject: fewer messages, because one append has up to 1,000.

    `before` is appended first and by itself: it may live on other shards. `expected` has the views
    that the block decided on, `is_decided` says that it decided anything. When the block has
    ended, `then` is awaited and `after` called if it is stored or will be, from the spool; `undo`,
    the last one first, if it came to nothing; and none if the outcome is unknown.

    A task started inside inherits the block's context and may outlive it: what it saves after the
    end is no longer part of the block, which is not `open` then.
    """

    owner: object
    drafts: dict[Subject, list[Draft]] = field(default_factory=dict)
    before: list[tuple[Subject, Sequence[Draft]]] = field(default_factory=list)
    expected: dict[Subject, Expected] = field(default_factory=dict)
    then: list[Callable[[], Awaitable[Any]]] = field(default_factory=list)
    after: list[Callable[[], None]] = field(default_factory=list)
    undo: list[Callable[[], None]] = field(default_factory=list)
    is_decided: bool = False
    outcome: Literal["nothing", "stored", "unknown"] = "nothing"
    open: bool = True
    _overlays: dict[tuple[str, Subject], _Overlay] = field(default_factory=dict)

    def add(self, appends: Iterable[tuple[Subject, Sequence[Draft]]]) -> None:
        """Take in what is saved."""
        for subject, drafts in appends:
            self.drafts.setdefault(subject, []).extend(drafts)

    @contextmanager
    def appended(self) -> Iterator[None]:
        """Note what becomes of the append that is made inside."""
        try:
            yield
        except Spooled:
            self.outcome = "stored"
            raise
        except (AppendUnknown, asyncio.CancelledError):
            self.outcome = "unknown"
            raise
        self.outcome = "stored"

    def end(self) -> None:
        """Call what waits for the outcome."""
        if self.outcome == "stored":
            for then in self.after:
                then()
        elif self.outcome == "nothing":
            for undo in reversed(self.undo):
                undo()

    def expect(self, projection: Projection[Any], subject: Subject, head: int) -> None:
        """Have the block appended only if the view still ends there."""
        self.expected.setdefault(subject, Expected(projection, head))

    def overlaid(
        self, projection: Projection[Any], subject: Subject, folded: Folded[Any], head: int
    ) -> tuple[Folded[Any], int]:
        """Return a view with what the block has saved to it: itself, if that is nothing."""
        expected = self.expected.get(subject)
        if expected is not None and expected.head != head:
            raise AppendConflict(subject.name, expected.head, head)
        drafts = self.drafts.get(subject)
        if drafts is None:
            return folded, head
        key = (projection.name, subject)
        overlay = self._overlays.get(key)
        if overlay is None or overlay.head != head:
            overlay = self._overlays[key] = _Overlay(copied_fold(projection, folded), head)
        # A sequence of 0, and the time now: it is not stored yet, and what expires is as new.
        now = dt.datetime.fromtimestamp(time.time(), dt.UTC).isoformat()
        for each in drafts[overlay.applied :]:
            recorded = Recorded(each.id, each.type, each.v, each.ts, each.payload, None, 0, 0, now)
            step(projection, overlay.folded, recorded)
        overlay.applied = len(drafts)
        return overlay.folded, head


_current: Final[ContextVar[Block | None]] = ContextVar("block", default=None)


def open_block(owner: object) -> Block | None:
    """The block of a store that the caller is in."""
    block = _current.get()
    return block if block is not None and block.open and block.owner is owner else None


@contextmanager
def begun(owner: object) -> Iterator[Block]:
    """Be in a block of a store."""
    block = Block(owner)
    token = _current.set(block)
    try:
        yield block
    finally:
        block.open = False
        _current.reset(token)


class Backend(NamedTuple):
    """What a store stands on.

    Attributes:
        outbox: the way of an append to the log, where the store degrades.
        place: where spools of the log are on this machine, also where the store has none.
        server: the embedded server that holds the log.
        loop: the event loop that alone may use the log; None where any may.
        archiver: moves what is old to the archive, where the log has one.
    """

    log: Log
    blobs: Blobs
    snapshots: SnapshotStore | None = None
    outbox: Outbox | None = None
    place: Place | None = None
    server: EmbeddedServer | None = None
    loop: asyncio.AbstractEventLoop | None = None
    archiver: Archiver | None = None

    async def close(self) -> None:
        """Close the log, with its blobs and snapshots, and let go of its server."""
        try:
            await self.log.close()
        finally:
            if self.server is not None:
                await self.server.leave()


class Core:
    """A log and its views, as one store uses them. It lives until the store is closed.

    Attributes:
        kinds: the kinds that it knows, by name.
        calls: what its public methods pass.
        past: the log, where it is that of a past moment.
    """

    log: Log

    def __init__(self, backend: Backend, options: StoreOptions) -> None:
        self.backend = backend
        self._options = options
        self.log = log = backend.log
        self.past: PastLog | None = log if isinstance(log, PastLog) else None
        self.calls: Calls = Calls(
            degrades=options.on_error == "degrade", is_past=self.past is not None
        )
        self.redaction: Redaction = Redaction(options.redact)
        self.kinds: dict[str, Kind[Any]] = {
            kind.name: kind for kind in (*KINDS, *options.all_kinds)
        }
        self._log = ForkedLog(log)
        self._namespace = log.namespace
        self.hot_views: Views = Views(
            self._log,
            loop=backend.loop,
            max_hot_bytes=options.max_hot_bytes,
            live=self.past is None,
        )
        self.hot_views.on_conflict = self._report_conflicts
        self._reported: dict[int, None] = {}
        log.on_epoch(self.hot_views.wake)
        if backend.outbox is not None:
            backend.outbox.on_stored = self._acked

    @property
    def forked_log(self) -> Log:
        """Internal: the log, seen through forks. Errors as `Views.check`."""
        self.hot_views.check()
        return self._log

    def log_at(self, position: LogPosition) -> Log:
        """Internal: the log as it was at a position, whose time is not known."""
        moment = Moment(position, math.nan)
        return ForkedLog(PastLog(self.log, moment.known))

    def now(self) -> float:
        """Internal.

        The time in Unix seconds by which things expire. In the past, after the first read.
        """
        return time.time() if self.past is None else self.past.time

    def kinds_of(self, owner: str) -> list[Kind[Any]]:
        """Internal.

        The kinds whose records are a session's, or a trace's; none that fold another's.
        """
        return [k for k in self.kinds.values() if k.owner == owner and k.of is None]

    def subject(self, projection: Projection[Any] | str, *keys: str) -> Subject:
        """Internal: the subject of a view, or of a family that has none."""
        family = projection if isinstance(projection, str) else projection.name
        return self._namespace.subject(family, *keys)

    # --- drafting: synchronous, and before anything is awaited, so that saves keep their order ----

    def redacted(
        self, method: str, key: Key[Any], record: msgspec.Struct, type: str | None = None
    ) -> Any:
        """Internal.

        A record with what `redact=` makes of its content. Errors as `Redaction.redacted`.
        """
        if not self.redaction:
            return record
        return self.redaction.record(method, key, type or key.kind.type_of(record), record)

    def drafted(
        self, method: str, key: Key[Any], record: msgspec.Struct, *, ts: float | None = None
    ) -> Draft:
        """Internal: the draft of a record as `method` was given it."""
        return encode(key.kind, self.redacted(method, key, record), ts=ts)

    def drafts(
        self, method: str, key: Key[Any], record: msgspec.Struct, *, ts: float | None = None
    ) -> tuple[Subject, list[Draft]]:
        """Internal: as `drafted`, with the subject it goes to: what `append_drafts` takes."""
        subject = self._namespace.subject(key.kind.name, *key.keys)
        return subject, [self.drafted(method, key, record, ts=ts)]

    # --- appending --------------------------------------------------------------------------------

    async def append_drafts(
        self,
        *appends: tuple[Subject, Sequence[Draft]],
        atomic: bool = False,
        before: Sequence[tuple[Subject, Sequence[Draft]]] = (),
    ) -> None:
        """Internal.

        Append what has not been applied yet. Errors as `Log.append`, or `Outbox.append`.

        Inside `atomic()` it gathers, and goes when the block ends. An id that the view has is not
        appended again: the fold would drop it. Where memory says so the log is asked, for the view
        may have been cleared since.

        Args:
            before: goes first, and is never part of an atomic append.
        """
        self.hot_views.check()
        block = open_block(self)
        if block is not None:
            block.add(appends)
            block.before += before
            return
        found = [
            (subject, *await self.without_repeats(subject, drafts))
            for subject, drafts in (*before, *appends)
        ]
        # From here on nothing is awaited: drafts are numbered as they are sent.
        stamped = [
            self._log.stamped(Append(subject, tuple(drafts)), cleared_at)
            for subject, drafts, cleared_at in found
            if drafts
        ]
        log = self.backend.outbox or self.log
        listed = {subject for subject, _ in before}
        ahead = [each for each in stamped if each.subject in listed]
        # Shards are appended to side by side; what is in order on one of them goes as one append.
        if ahead and len({each.subject.shard for each in stamped}) > 1:
            with suppress(Spooled):  # so is what follows, which says so
                await self._append(log, ahead, False)
            stamped = stamped[len(ahead) :]
        if stamped:
            await self._append(log, stamped, atomic)

    async def without_repeats(
        self, subject: Subject, drafts: Sequence[Draft]
    ) -> tuple[Sequence[Draft], int]:
        """Internal: the drafts that a view lacks, and the sequence of its clearing, if known.

        Where memory says that the view has one, the log is asked; if that fails, the draft is
        sent, and the fold drops it if it is a repeat. Errors as `unsaved`.
        """
        folded = self.hot_views.current(subject)
        if folded is not None and any(each.id in folded.seen for each in drafts):
            try:
                kind = self.kinds[subject.family]
                folded = await self.hot_views.read(kind, subject, "strong")
            except (LogUnavailable, LogCorrupt, LogRewound):
                folded = None
        return self.unsaved(subject, drafts, folded), folded.cleared_at if folded else 0

    def unsaved(
        self, subject: Subject, drafts: Sequence[Draft], folded: Folded[Any] | None
    ) -> Sequence[Draft]:
        """Internal: the drafts that a view lacks, as far as it is in memory.

        Raises:
            IdTaken: the view has one of the ids, or the call gives it twice, for other content.
        """
        kind = self.kinds.get(subject.family)
        digest = None if kind is None else kind.digest
        if digest is None:
            return drafts if folded is None else [d for d in drafts if d.id not in folded.seen]
        if folded is None and len(drafts) == 1:
            return drafts
        new = dict[str, tuple[Draft, int]]()
        for each in drafts:
            given = digest(each)
            at = None if folded is None else folded.seen.get(each.id)
            if at is not None and folded is not None:
                stored = digest_at(folded, at)
            else:
                stored = new.setdefault(each.id, (each, given))[1]
            if stored != given:
                raise IdTaken(subject.family, subject.keys, each.id, stored, given)
        return [each for each, _ in new.values()]

    async def append_atomically(self, appends: Sequence[Append]) -> list[int]:
        """Internal: append all or nothing, at once: past the spool, and also inside `atomic()`.

        Errors as `Log.append`.
        """
        return await self.append_each(appends, atomic=True)

    async def append_each(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        """Internal.

        Append at once, each by itself unless `atomic`; otherwise as `append_atomically`.
        """
        self.hot_views.check()
        return await self._append(self._log, list(map(self._log.stamped, appends)), atomic)

    async def _append(
        self, log: Log | Outbox, stamped: Sequence[Append], atomic: bool
    ) -> list[int]:
        try:
            seqs = await log.append(stamped, atomic=atomic)
        except (AppendUnknown, asyncio.CancelledError):
            for append in stamped:  # the next reads ask the log: they are how a caller finds out
                self.hot_views.unsettled(append.subject)
            raise
        self._acked(stamped, seqs)
        for append in stamped:
            folded = self.hot_views.current(append.subject)
            if folded is not None and folded.conflicts:
                self._report_conflicts(append.subject, folded, {each.n for each in append.drafts})
        return seqs

    def _report_conflicts(
        self, subject: Subject, folded: Folded[Any], own: Collection[int] = ()
    ) -> None:
        """Raise IdTaken, once for each, for what this store saved under an id that was taken.

        A store that degrades notes what another call saved; `own` are the drafts of this one.
        """
        for (writer, n), (id, stored, given) in folded.conflicts.items():
            if writer != self._log.writer.id or n in self._reported:
                continue
            self._reported[n] = None
            if len(self._reported) > _REPORTED_REMEMBERED:
                del self._reported[next(iter(self._reported))]
            error = IdTaken(subject.family, subject.keys, id, stored, given)
            if n in own or not self.calls.degrades:
                raise error
            self.calls.note("append", None, error)

    async def settle(self) -> None:
        """Internal: have appended first what waits in the spool. Errors as `Outbox.settle`."""
        self.hot_views.check()
        if self.backend.outbox is not None:
            await self.backend.outbox.settle()

    async def once_stored(self, then: Callable[[], Awaitable[T]]) -> T | None:
        """Internal.

        Await a function now, and return its result; inside `atomic()`, once the block is stored.
        """
        block = open_block(self)
        if block is None:
            return await then()
        block.then.append(then)
        return None

    def after_stored(self, then: Callable[[], None]) -> None:
        """Internal.

        Call a function now; inside `atomic()` when the block is stored or waits in the spool, never
        if it fails.
        """
        block = open_block(self)
        if block is None:
            then()
        else:
            block.after.append(then)

    def unless_stored(self, undo: Callable[[], None]) -> None:
        """Internal: inside `atomic()`, call a function if the block comes to nothing."""
        block = open_block(self)
        if block is not None:
            block.undo.append(undo)

    def _acked(self, appends: Sequence[Append], seqs: Sequence[int]) -> None:
        for append, seq in zip(appends, seqs, strict=True):
            self.hot_views.acked(append.subject, seq)

    # --- reading ----------------------------------------------------------------------------------

    async def read(
        self, projection: Projection[S], *keys: str, consistency: Consistency = "session"
    ) -> Folded[S]:
        """Internal: return the view of `keys`. Use it before the next await; never change it."""
        subject = self._namespace.subject(projection.name, *keys)
        return await self.hot_views.read(projection, subject, consistency)

    async def select(
        self, projection: Projection[Items], *keys: str, consistency: Consistency, choose: Choose
    ) -> list[Recorded]:
        """Internal: return what `choose` wants of a sequence: see `Views.select`."""
        subject = self.subject(projection, *keys)
        return await self.hot_views.select(projection, subject, consistency, choose)

    async def read_at(
        self, projection: Projection[S], *keys: str, consistency: Consistency = "strong"
    ) -> tuple[Folded[S], int]:
        """Internal.

        Read a view to decide on it, with the sequence at which it ends: see `Views.read_at`.

        What waits in the spool comes first. Inside `atomic()` it shows what the block has saved.
        """
        folded, head = await self.read_stored_at(projection, *keys, consistency=consistency)
        block = open_block(self)
        if block is None:
            return folded, head
        return block.overlaid(projection, self.subject(projection, *keys), folded, head)

    async def read_stored_at(
        self, projection: Projection[S], *keys: str, consistency: Consistency = "strong"
    ) -> tuple[Folded[S], int]:
        """Internal: as `read_at`, without what an `atomic()` block has saved."""
        await self.settle()
        subject = self.subject(projection, *keys)
        return await self.hot_views.read_at(projection, subject, consistency)

    def follow(
        self, projection: Projection[Items], *keys: str, since_id: str | None
    ) -> AsyncGenerator[Recorded]:
        """Internal: yield the records of a sequence, then each new one: see `Views.watch`."""
        return watching.watch(self.hot_views, projection, self.subject(projection, *keys), since_id)
