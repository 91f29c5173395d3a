"""The core of a store: the log, its views, and what every capability does with them.

The public primitives are in `foldlog.store.primitives`.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from foldlog.envelope import Draft, Recorded
from foldlog.errors import (
    AppendUnknown,
    ConfigurationError,
    IdTaken,
    LogCorrupt,
    LogRewound,
    LogUnavailable,
    NotFound,
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
from foldlog.log.timers import Timers
from foldlog.position import LogPosition
from foldlog.store.blocks import open_block
from foldlog.store.operation import Calls
from foldlog.store.options import Options
from foldlog.store.payloads import encode
from foldlog.store.redaction import Redaction
from foldlog.store.spool import Outbox, Place, Spooled
from foldlog.subjects import Namespace, Subject
from foldlog.views import Choose, Consistency, Views, watching
from foldlog_projections.fold import Folded, digest_at
from foldlog_projections.items import Items
from foldlog_projections.registry import KINDS

S = TypeVar("S")
T = TypeVar("T")

DECIDE_SECONDS: Final = 10.0
"""How long a decision is made again because others write, unless the caller says otherwise."""


_REPORTED_REMEMBERED: Final = 16 * 1024
"""Drafts whose lost ids were reported: more than the views in use hold."""


class Backend(NamedTuple):
    """What a store stands on.

    Attributes:
        timers: what comes back at a time; None in the past, which waits for nothing.
        outbox: the way of an append to the log, where the store degrades.
        place: where spools of the log are on this machine, also where the store has none.
        server: the embedded server that holds the log.
        loop: the event loop that alone may use the log; None where any may.
        archiver: moves what is old to the archive, where the log has one.
    """

    log: Log
    blobs: Blobs
    snapshots: SnapshotStore | None = None
    timers: Timers | None = None
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
        reads_only: nothing may be written.
        own_tables: the directory with SQL's tables of a store without a data directory.
    """

    log: Log

    def __init__(self, backend: Backend, options: Options) -> None:
        self.backend = backend
        self.options = options
        self.log = log = backend.log
        self.past: PastLog | None = log if isinstance(log, PastLog) else None
        self.reads_only: bool = options.read_only or self.past is not None
        self.calls: Calls = Calls(
            degrades=options.on_error == "degrade", reads_only=self.reads_only
        )
        self.redaction: Redaction = Redaction(options.redact)
        self.kinds: dict[str, Kind[Any]] = {
            kind.name: kind for kind in (*KINDS, *options.all_kinds)
        }
        self._log = ForkedLog(log)
        self.namespace: Namespace = log.namespace
        self.hot_views: Views = Views(
            self._log,
            loop=backend.loop,
            max_hot_bytes=options.max_hot_bytes,
            live=self.past is None,
        )
        self.hot_views.on_conflict = self._report_conflicts
        self._reported: dict[int, None] = {}
        self.ending: AsyncExitStack = AsyncExitStack()
        self.waits: Counter[str] = Counter()
        self.own_tables: Path | None = None
        log.on_epoch(self.hot_views.wake)
        if backend.outbox is not None:
            backend.outbox.on_stored = self._acked

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Have a function awaited when the store closes, before those added earlier."""
        self.ending.push_async_callback(close)

    @contextmanager
    def waits_for(self, what: str) -> Iterator[None]:
        """Have `health` tell what a call waits for, while it does."""
        self.waits[what] += 1
        try:
            yield
        finally:
            self.waits[what] -= 1
            self.waits += Counter()  # without those that have ended

    @property
    def forked_log(self) -> Log:
        """The log, seen through forks. Errors as `Views.check`."""
        self.hot_views.check()
        return self._log

    def log_at(self, position: LogPosition) -> Log:
        """The log as it was at a position, whose time is not known."""
        moment = Moment(position, math.nan)
        return ForkedLog(PastLog(self.log, moment.known))

    @property
    def tables(self) -> Path | None:
        """The directory with SQL's tables: beside the data, unless this store has its own."""
        server = self.backend.server
        return self.own_tables if server is None else server.path / "sql" / self.namespace.stream(0)

    def forget_tables(self, *names: str) -> None:
        """Remove SQL's tables of some names, or all: DuckDB overwrites nothing that it frees."""
        directory = self.tables
        if directory is not None:
            for name in names or ("*",):
                for each in directory.glob(f"{name}.*"):
                    if each.suffix != ".lock":
                        each.unlink(missing_ok=True)

    def now(self) -> float:
        """The time in Unix seconds by which things expire. In the past, after the first read."""
        return time.time() if self.past is None else self.past.time

    def kinds_of(self, owner: str) -> list[Kind[Any]]:
        """The kinds whose records are a session's, or a trace's; none that fold another's."""
        return [k for k in self.kinds.values() if k.owner == owner and k.of is None]

    def subject(self, projection: Kind[Any] | str, *keys: str) -> Subject:
        """The subject of a view, or of a family that has none."""
        family = projection if isinstance(projection, str) else projection.name
        return self.namespace.subject(family, *keys)

    def subject_of(self, key: Key[Any]) -> Subject:
        """The subject of a view. ConfigurationError: the store does not know the kind."""
        of = key.kind.of or key.kind  # what folds the records of a known kind can be read
        if self.kinds.get(of.name) is not of:
            raise ConfigurationError(f"this store does not know {of!r}: open it with kinds=[...]")
        return self.namespace.subject(key.kind.family, *key.keys)

    def kind(self, name: str) -> Kind[Any]:
        """Return the kind of that name. NotFound: the store knows none."""
        found = self.kinds.get(name)
        if found is None:
            raise NotFound("kind", name, f"there are {', '.join(sorted(self.kinds))}")
        return found

    async def keys(self, kind: Kind[Any], prefix: Sequence[str] = ()) -> list[Key[Any]]:
        """See `Store.keys`."""
        subjects = await self.forked_log.subjects(kind.family)
        wanted = tuple(prefix)
        found = {each.keys for each in subjects if each.keys[: len(wanted)] == wanted}
        return [Key(kind, keys) for keys in sorted(found)]

    # --- drafting: synchronous, and before anything is awaited, so that saves keep their order ----

    def redacted(
        self, method: str, key: Key[Any], record: msgspec.Struct, type: str | None = None
    ) -> Any:
        """A record with what `redact=` makes of its content. Errors as `Redaction.redacted`."""
        if self.redaction.hook is None:
            return record
        return self.redaction.record(method, key, type or key.kind.type_of(record), record)

    def drafted(
        self, method: str, key: Key[Any], record: msgspec.Struct, *, ts: float | None = None
    ) -> Draft:
        """The draft of a record as `method` was given it."""
        return encode(key.kind, self.redacted(method, key, record), ts=ts)

    def drafts(
        self, method: str, key: Key[Any], record: msgspec.Struct, *, ts: float | None = None
    ) -> tuple[Subject, list[Draft]]:
        """As `drafted`, with the subject it goes to: what `append_drafts` takes."""
        subject = self.namespace.subject(key.kind.name, *key.keys)
        return subject, [encode(key.kind, self.redacted(method, key, record), ts=ts)]

    # --- appending --------------------------------------------------------------------------------

    async def append_drafts(
        self,
        *appends: tuple[Subject, Sequence[Draft]],
        atomic: bool = False,
        before: Sequence[tuple[Subject, Sequence[Draft]]] = (),
    ) -> None:
        """Append what has not been applied yet. Errors as `Log.append`, or `Outbox.append`.

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
        found = list[tuple[Subject, Sequence[Draft], int]]()
        for subject, drafts in (*before, *appends):
            folded = self.hot_views.current(subject)
            if len(drafts) == 1 and (folded is None or drafts[0].id not in folded.seen):
                found.append((subject, drafts, folded.cleared_at if folded else 0))
            else:
                found.append((subject, *await self.without_repeats(subject, drafts)))
        # From here on nothing is awaited: drafts are numbered as they are sent.
        stamped = list[Append]()
        for subject, drafts, cleared_at in found:
            if drafts:
                stamped.append(self._log.stamped(subject, drafts, known=cleared_at))
        log = self.backend.outbox or self.log
        # Shards are appended to side by side; what is in order on one of them goes as one append.
        if before and len({each.subject.shard for each in stamped}) > 1:
            listed = {subject for subject, _ in before}
            ahead = [each for each in stamped if each.subject in listed]
            if ahead:
                with suppress(Spooled):  # so is what follows, which says so
                    await self._append(log, ahead, False)
            stamped = stamped[len(ahead) :]
        if stamped:
            await self._append(log, stamped, atomic)

    async def without_repeats(
        self, subject: Subject, drafts: Sequence[Draft]
    ) -> tuple[Sequence[Draft], int]:
        """The drafts that a view lacks, and the sequence of its clearing, if known.

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
        """The drafts that a view lacks, as far as it is in memory.

        Raises:
            IdTaken: the view has one of the ids, or the call gives it twice, for other content.
        """
        kind = self.kinds.get(subject.family)
        digest_of = None if kind is None else kind.digest_of
        if digest_of is None:
            return drafts if folded is None else [d for d in drafts if d.id not in folded.seen]
        new = dict[str, tuple[Draft, int]]()
        for each in drafts:
            given = digest_of(each.type)(each.payload)
            at = None if folded is None else folded.seen.get(each.id)
            if at is not None and folded is not None:
                stored = digest_at(folded, at)
            else:
                stored = new.setdefault(each.id, (each, given))[1]
            if stored != given:
                raise IdTaken(subject.family, subject.keys, each.id, stored, given)
        return [each for each, _ in new.values()]

    async def append_at_once(self, appends: Sequence[Append], *, atomic: bool = True) -> list[int]:
        """Append all or nothing, or each by itself: past the spool, and also inside `atomic()`.

        Errors as `Log.append`.
        """
        self.hot_views.check()
        stamped = [self._log.stamped(each.subject, each.drafts, each.expect) for each in appends]
        return await self._append(self.log, stamped, atomic)

    async def _append(
        self, log: Log | Outbox, stamped: Sequence[Append], atomic: bool
    ) -> list[int]:
        try:
            seqs = await log.append(stamped, atomic=atomic)
        except (AppendUnknown, asyncio.CancelledError):
            for append in stamped:  # the next reads ask the log: they are how a caller finds out
                self.hot_views.unsettled(append.subject)
            raise
        conflicting = list[tuple[Append, Folded[Any]]]()
        for append, seq in zip(stamped, seqs, strict=True):
            folded = self.hot_views.acked(append.subject, seq)
            if folded is not None:
                conflicting.append((append, folded))
        for append, folded in conflicting:
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
        """Have appended first what waits in the spool. Errors as `Outbox.settle`."""
        self.hot_views.check()
        if self.backend.outbox is not None:
            await self.backend.outbox.settle()

    async def once_stored(self, then: Callable[[], Awaitable[T]]) -> T | None:
        """Await a function now, and return its result; inside `atomic()`, when it is stored."""
        block = open_block(self)
        if block is None:
            return await then()
        block.then.append(then)
        return None

    def after_stored(self, then: Callable[[], None]) -> None:
        """Call a function now.

        Inside `atomic()` when the block is stored or waits in the spool, never if it fails.
        """
        block = open_block(self)
        if block is None:
            then()
        else:
            block.after.append(then)

    def unless_stored(self, undo: Callable[[], None]) -> None:
        """Inside `atomic()`, call a function if the block comes to nothing."""
        block = open_block(self)
        if block is not None:
            block.undo.append(undo)

    def _acked(self, appends: Sequence[Append], seqs: Sequence[int]) -> None:
        for append, seq in zip(appends, seqs, strict=True):
            self.hot_views.acked(append.subject, seq)

    # --- reading ----------------------------------------------------------------------------------

    async def read(
        self, projection: Kind[S], *keys: str, consistency: Consistency = "session"
    ) -> Folded[S]:
        """Return the view of `keys`. Use it before the next await; never change it."""
        subject = self.namespace.subject(projection.name, *keys)
        return await self.hot_views.read(projection, subject, consistency)

    async def select(
        self, projection: Kind[Items], *keys: str, consistency: Consistency, choose: Choose
    ) -> list[Recorded]:
        """Return what `choose` wants of a sequence: see `Views.select`."""
        subject = self.subject(projection, *keys)
        return await self.hot_views.select(projection, subject, consistency, choose)

    async def read_at(
        self, key: Key[S], *, consistency: Consistency = "strong", staged: bool = True
    ) -> tuple[Folded[S], int]:
        """Read a view to decide on it, with the sequence at which it ends: see `Views.read_at`.

        What waits in the spool comes first. Inside `atomic()` it shows what the block has saved,
        if `staged`.
        """
        await self.settle()
        subject = self.subject_of(key)
        folded, head = await self.hot_views.read_at(key.kind, subject, consistency)
        block = open_block(self) if staged else None
        return (folded, head) if block is None else block.overlaid(key, subject, folded, head)

    def follow(
        self, projection: Kind[Items], *keys: str, after: str | None
    ) -> AsyncGenerator[Recorded]:
        """Yield the records of a sequence, then each new one: see `Views.watch`."""
        return watching.watch(self.hot_views, projection, self.subject(projection, *keys), after)

    def advances(self, key: Key[Any], *, must_look: bool = True) -> AsyncGenerator[int]:
        """Yield the sequence up to which a view is folded: now, and whenever it has advanced.

        It survives lost connections. It ends with StoreClosed when the store is closed.
        """
        subject = self.subject_of(key)
        return watching.advances(self.hot_views, key.kind, subject, must_look=must_look)


class Capability:
    """Something that a store can do: public methods over the core that it holds."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._calls = core.calls


def core_of(store: Capability) -> Core:
    """The core of a store, for facades and adapters that no public method serves."""
    return store._core
