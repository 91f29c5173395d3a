"""What a capability works with: appends that are remembered, and reads of views.

Appends made inside `atomic()` gather and go as one when the block ends. An id that a hot view has
applied is not appended again: the fold would drop it anyway.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from foldlog.envelope import Draft, Recorded
from foldlog.errors import AppendUnknown
from foldlog.log.forks import ForkedLog
from foldlog.log.moments import Moment
from foldlog.log.past import PastLog
from foldlog.log.port import Append, Log
from foldlog.position import LogPosition
from foldlog.store.redaction import Redaction
from foldlog.store.spool import Outbox
from foldlog.subjects import Subject
from foldlog.views import Choose, Consistency, Views
from foldlog_projections.fold import Folded, Projection
from foldlog_projections.items import Items

S = TypeVar("S")


@dataclass(slots=True)
class _Gathering:
    """The appends of one `atomic()` block; `open` until it ends.

    A task started inside inherits the block's context and may outlive it: what it saves then is
    no longer part of the block.
    """

    journal: Journal
    appends: list[Append] = field(default_factory=list)
    open: bool = True


_gathering: ContextVar[_Gathering | None] = ContextVar("gathering", default=None)


class Journal:
    """The log and its views, as one store uses them. `past` is the log where it is of the past.

    `redaction`: what whoever makes envelopes of what a caller gave passes that through first.
    """

    def __init__(
        self,
        log: Log,
        views: Views,
        outbox: Outbox | None = None,
        redaction: Redaction | None = None,
    ) -> None:
        self._stored = log
        self._log = ForkedLog(log)
        self.views = views
        self.past = log if isinstance(log, PastLog) else None
        self.redaction = redaction or Redaction()
        self._outbox = outbox
        self._appends_to: Log | Outbox = outbox or log
        if outbox is not None:
            outbox.on_stored(self._acked)

    @property
    def log(self) -> Log:
        """The log below, seen through forks. Errors as `Views.check`."""
        self.views.check()
        return self._log

    @property
    def own_log(self) -> Log:
        """The log below, without what forks share. Errors as `Views.check`."""
        self.views.check()
        return self._stored

    def log_at(self, position: LogPosition) -> Log:
        """The log below as it was at a position, whose time is not known."""
        moment = Moment(position, math.nan)
        return ForkedLog(PastLog(self._stored, moment.known))

    def now(self) -> float:
        """The time in Unix seconds by which things expire. In the past, after the first read."""
        return time.time() if self.past is None else self.past.time

    def subject(self, projection: Projection[Any] | str, *keys: str) -> Subject:
        """The subject of a projection's view, or of a family that has none.

        Raises:
            InvalidId: a key is empty or no valid string.
        """
        family = projection if isinstance(projection, str) else projection.name
        return self._log.namespace.subject(family, *keys)

    async def append(self, *appends: tuple[Subject, Sequence[Draft]]) -> None:
        """Append what has not been applied yet. Errors as `Log.append`, or `Outbox.append`."""
        self.views.check()
        new = []
        for subject, drafts in appends:
            folded = self.views.current(subject)
            if folded is not None:
                drafts = [draft for draft in drafts if folded.admits(draft.id)]
            if drafts:
                new.append(Append(subject, tuple(drafts)))
        gathering = self._open_gathering()
        if gathering is not None:
            gathering.appends.extend(new)
        elif new:
            new = list(map(self._stamped, new))
            try:
                seqs = await self._appends_to.append(new)
            except (AppendUnknown, asyncio.CancelledError):
                self.unsettled(new)
                raise
            self._acked(new, seqs)

    async def compare_and_append(
        self, subject: Subject, drafts: Sequence[Draft], head: int, *, also: Sequence[Append] = ()
    ) -> int:
        """Append if `subject` ends at `head`; return where it ends then. Never part of `atomic()`.

        `also`: what is appended in the same moment, on the same shard.

        Raises:
            AppendConflict: it does not. Other errors as `Log.append`.
        """
        appends = [Append(subject, tuple(drafts), head), *also]
        appends = [self._log.stamped(append) for append in appends]
        try:
            seqs = await self.log.append(appends, atomic=True)
        except (AppendUnknown, asyncio.CancelledError):
            self.unsettled(appends)
            raise
        self._acked(appends, seqs)
        return seqs[0]

    async def append_now(self, append: Append) -> int:
        """Append at once, also inside `atomic()` and past the spool; return where it stands.

        Errors as `Log.append`.
        """
        [seq] = await self.log.append([append])
        return seq

    async def read(
        self, projection: Projection[S], *keys: str, consistency: Consistency = "session"
    ) -> Folded[S]:
        """Return the view of `keys`. Use it before the next await; never change it."""
        subject = self.subject(projection, *keys)
        return await self.views.read(projection, subject, consistency)

    async def select(
        self, projection: Projection[Items], *keys: str, consistency: Consistency, choose: Choose
    ) -> list[Recorded]:
        """Return what `choose` wants of a sequence: see `Views.select`."""
        subject = self.subject(projection, *keys)
        return await self.views.select(projection, subject, consistency, choose)

    async def read_at(
        self, projection: Projection[S], *keys: str, consistency: Consistency = "strong"
    ) -> tuple[Folded[S], int]:
        """Read for a `compare_and_append`: see `Views.read_at`.

        What waits in the spool comes first.
        """
        await self.settle()
        subject = self.subject(projection, *keys)
        return await self.views.read_at(projection, subject, consistency)

    def watch(
        self, projection: Projection[Items], *keys: str, since_id: str | None
    ) -> AsyncGenerator[Recorded]:
        """See `Views.watch`."""
        return self.views.watch(projection, self.subject(projection, *keys), since_id)

    async def settle(self) -> None:
        """Have appended first what waits in the spool. Errors as `Outbox.settle`."""
        self.views.check()
        if self._outbox is not None:
            await self._outbox.settle()

    @asynccontextmanager
    async def atomic(self) -> AsyncIterator[None]:
        """Make the appends of the block one append, all or nothing, when it ends.

        Nothing is appended if the block raises. Reads inside do not see what the block saves. A
        block inside another joins it.

        Raises:
            ConfigurationError: what was saved lives on several shards. Nothing was appended.
        """
        if self._open_gathering() is not None:
            yield
            return
        gathering = _Gathering(self)
        token = _gathering.set(gathering)
        try:
            yield
        finally:
            gathering.open = False
            _gathering.reset(token)
        if gathering.appends:
            # The block counts as saved when it ends.
            merged = list(map(self._stamped, _merged(gathering.appends)))
            self.views.check()
            try:
                seqs = await self._appends_to.append(merged, atomic=True)
            except (AppendUnknown, asyncio.CancelledError):
                self.unsettled(merged)
                raise
            self._acked(merged, seqs)

    def _stamped(self, append: Append) -> Append:
        folded = self.views.current(append.subject)
        return self._log.stamped(append, 0 if folded is None else folded.cleared_at)

    def _open_gathering(self) -> _Gathering | None:
        gathering = _gathering.get()
        if gathering is not None and gathering.open and gathering.journal is self:
            return gathering
        return None

    def _acked(self, appends: Sequence[Append], seqs: Sequence[int]) -> None:
        for append, seq in zip(appends, seqs, strict=True):
            self.views.acked(append.subject, seq)

    def unsettled(self, appends: Sequence[Append]) -> None:
        """Have the next reads ask the log: they are how a caller finds out."""
        for append in appends:
            self.views.unsettled(append.subject)


def _merged(appends: list[Append]) -> list[Append]:
    """One append a subject: fewer messages, of which an atomic append may have 1,000."""
    by_subject: dict[Subject, list[Draft]] = {}
    for append in appends:
        by_subject.setdefault(append.subject, []).extend(append.drafts)
    return [Append(subject, tuple(drafts)) for subject, drafts in by_subject.items()]
