"""Following the whole log: what takes effect in any view, once, from a position on, and live."""

from __future__ import annotations

import asyncio
import functools
import heapq
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec

from foldlog.envelope import CLEARED, FORKED, Recorded
from foldlog.errors import LogCorrupt, LogUnavailable
from foldlog.kind import Fold, Kind
from foldlog.log import moments
from foldlog.log.port import Record, Stored
from foldlog.position import LogPosition, Reach, mark_of
from foldlog.store.core import Core
from foldlog.store.primitives import decoded
from foldlog.subjects import Branch, Subject
from foldlog.upcasting import UPCASTERS
from foldlog.views.watching import woken
from foldlog_projections.fold import Folded, start, step

_REMEMBERED: Final = 200_000
"""How much a subscription remembers: views that it met last, their ids, and what was replaced."""

_log: Final = logging.getLogger("foldlog")


class LogItem(NamedTuple):
    """One record of the log, in the order of its shard.

    Attributes:
        kind: the name of the view's kind.
        keys: the keys of the view.
        id: its idempotency key: unique in its view.
        type: the record's type, as the kind declares it; or `subject.cleared`, where all that the
            view held until here has been removed.
        record: the record itself; None where the view was cleared.
        ts: the writer's clock, in Unix seconds.
        recorded_at: the log's clock, in Unix seconds.
        position: everything up to here, of all shards: where to go on.
        writer: the store that appended it.
        number: counts that store's records: of two records of one writer, the greater came later.
    """

    kind: str
    keys: tuple[str, ...]
    id: str
    type: str
    record: Any
    ts: float
    recorded_at: float
    position: LogPosition
    writer: str
    number: int

    @property
    def was_cleared(self) -> bool:
        """Whether it says that the view was cleared or erased."""
        return self.type == CLEARED


class Page(NamedTuple):
    """What a subscription has read at once: some items, and the position behind all of it.

    It may have no items: then nothing up to `position` was of the kinds that were asked for.
    """

    items: list[LogItem]
    position: LogPosition


class Subscription:
    """What `store.subscribe` returns: iterate over it, as often as you like, for `LogItem`s.

    Or over `pages()`, to take at once what was read at once.
    """

    def __init__(
        self,
        core: Core,
        kinds: Mapping[str, Kind[Any]],
        after: LogPosition | None,
        *,
        is_everything: bool,
        live: bool,
        by_time: bool,
    ) -> None:
        self._core = core
        self._kinds = kinds
        self._after = after
        self._families = None if is_everything else sorted(kinds)
        self._live = live and core.past is None
        self._by_time = by_time
        self._wakes = set[asyncio.Event]()

    def look(self) -> None:
        """Have it look at the log at once, for records of other kinds, too: `Page.position`."""
        for each in self._wakes:
            each.set()

    async def __aiter__(self) -> AsyncGenerator[LogItem]:
        async with aclosing(self.pages()) as pages:
            async for page in pages:
                for item in page.items:
                    yield item

    async def pages(self) -> AsyncGenerator[Page]:
        """Yield pages, each once. Errors as `Store.subscribe`."""
        reading = _Reading(self._core, self._kinds, self._families, self._after)
        async with self._following() as wake:
            while True:
                wake.clear()
                try:
                    async with aclosing(reading.round(by_time=self._by_time)) as pages:
                        async for page in pages:
                            yield page
                except LogUnavailable as error:
                    if not self._live:
                        raise
                    _log.info("a subscription waits for the log: %s", error)
                    reading.begin_again()
                if not self._live:
                    return
                await woken(wake)

    @asynccontextmanager
    async def _following(self) -> AsyncIterator[asyncio.Event]:
        """What is set whenever there may be more: by push, which is only a hint."""
        wake, followers = asyncio.Event(), self._core.hot_views.followers
        async with AsyncExitStack() as following:
            if self._live:
                for wakes in (followers, self._wakes):
                    wakes.add(wake)
                    following.callback(wakes.discard, wake)
                log = self._core.forked_log
                families: Sequence[str | None] = self._families or (None,)
                for shard in range(log.namespace.shards):
                    for family in families:
                        every = Branch(log.namespace.wildcard(shard, family), shard)
                        unfollow = await log.follow(every, functools.partial(_set, wake))
                        following.push_async_callback(unfollow)
            yield wake


def _set(wake: asyncio.Event, _: Record) -> None:
    wake.set()


class _Reading:
    """How far a subscription has come, and what it has to remember."""

    def __init__(
        self,
        core: Core,
        kinds: Mapping[str, Kind[Any]],
        families: Sequence[str] | None,
        after: LogPosition | None,
    ) -> None:
        self._core = core
        self._kinds = kinds
        self._families = families
        none = (Reach(0),) * core.namespace.shards
        self._reaches = [*(none if after is None else after.shards)]
        self._effects = _Effects(core, is_whole=after is None)
        self._epoch: int | None = None
        self._is_new = True

    def begin_again(self) -> None:
        """Forget what was read and not yielded."""
        self._effects = _Effects(self._core, is_whole=False)

    async def round(self, *, by_time: bool) -> AsyncGenerator[Page]:
        """Yield what there is by now behind where it was."""
        self._core.hot_views.check()
        epoch = self._core.log.epoch
        if epoch != self._epoch:  # it is the log that it was
            await moments.resolve(self._core.log, self._position())
            self._epoch = epoch
        heads = (await moments.head(self._core.log)).shards
        shards = [
            self._pages(shard, head.seq)
            for shard, head in enumerate(heads)
            if head.seq > self._reaches[shard].whole
        ]
        async with AsyncExitStack() as reading:
            for each in shards:
                await reading.enter_async_context(aclosing(each))
            async for page in _merged(shards) if by_time and len(shards) > 1 else _joined(shards):
                yield Page([self._item(each) for each in page], self._position())
        if shards or self._is_new:
            self._is_new = False
            # The scan may have gone further than the head was; never less far.
            for shard, head in enumerate(heads):
                if head.seq > self._reaches[shard].whole:
                    self._reaches[shard] = head
            yield Page([], self._position())

    async def _pages(self, shard: int, head: int) -> AsyncGenerator[list[_Effect]]:
        """Yield what takes effect of a shard, page by page, up to its head at least."""
        log = self._core.forked_log
        only = [log.namespace.wildcard(shard, each) for each in self._families or ()]
        begin = self._reaches[shard]
        async with aclosing(log.scan(shard, after=begin.whole, only=only)) as pages:
            async for page in pages:
                found: list[_Effect] = []
                for stored in page:
                    kind = self._kinds.get(stored.subject.split(".", 4)[3])
                    if kind is None:
                        continue
                    effects = await self._effects.of(shard, kind, stored)
                    found += [
                        each
                        for each in effects
                        if (each.envelope.seq, each.envelope.index) > begin.place
                    ]
                if found:
                    yield found
                if page[-1].seq > head:
                    return

    def _item(self, effect: _Effect) -> LogItem:
        kind, subject, e, is_last = effect
        self._reaches[subject.shard] = Reach(e.seq, None if is_last else e.index, mark_of(e.id))
        record = None if e.type == CLEARED else decoded(kind, UPCASTERS.bring_up(e))
        return LogItem(
            kind.name,
            subject.keys,
            e.id,
            e.type,
            record,
            e.ts,
            e.recorded_at,
            self._position(),
            e.writer,
            e.n,
        )

    def _position(self) -> LogPosition:
        return LogPosition(tuple(self._reaches))


class _Effect(NamedTuple):
    """An envelope that takes effect, and whether it is the last of its record."""

    kind: Kind[Any]
    subject: Subject
    envelope: Recorded
    is_last: bool


async def _joined(
    shards: Sequence[AsyncGenerator[list[_Effect]]],
) -> AsyncGenerator[list[_Effect]]:
    for shard in shards:
        async for page in shard:
            yield page


async def _merged(
    shards: Sequence[AsyncGenerator[list[_Effect]]],
) -> AsyncGenerator[list[_Effect]]:
    """Yield what several shards give by the time at which it was stored."""
    waiting: dict[int, list[_Effect]] = {}
    reading = dict(enumerate(shards))
    while reading or waiting:
        for number in [*reading]:
            if number not in waiting:
                page = await anext(reading[number], None)
                if page is None:
                    del reading[number]
                else:
                    waiting[number] = page
        # What is before the end of the page that ends first may go: nothing older can come.
        until = min((page[-1].envelope.recorded_at for page in waiting.values()), default=0.0)
        found: list[list[_Effect]] = []
        for number, page in list(waiting.items()):
            ready = sum(1 for each in page if each.envelope.recorded_at <= until)
            found.append(page[:ready])
            waiting[number] = page[ready:]
            if not waiting[number]:
                del waiting[number]
        if page := [*heapq.merge(*found, key=lambda each: each.envelope.recorded_at)]:
            yield page


class _Effects:
    """Which envelopes take effect: no repeat, and none that came too late, as views have it.

    It remembers the ids of the views that it met last; those of others it reads again.
    """

    def __init__(self, core: Core, *, is_whole: bool) -> None:
        self._core = core
        self._is_whole = is_whole
        self._folds: dict[str, tuple[Subject, Folded[None]]] = {}
        self._size = 0

    async def of(self, shard: int, kind: Kind[Any], stored: Stored) -> list[_Effect]:
        """The envelopes of a record that take effect. Raises LogCorrupt."""
        envelopes = stored.record().envelopes
        ids = _ids_of(kind)
        known = self._folds.pop(stored.subject, None)
        if known is not None:
            subject, folded = known
        else:
            subject, folded = self._subject(shard, stored.subject, envelopes[-1]), start(ids)
            if not self._is_whole or envelopes[0].type == FORKED:
                await self._read_again(ids, folded, subject, stored.seq)
            self._size += _size(folded)
        before = _size(folded)
        last, found = envelopes[-1], []
        for envelope in envelopes:
            try:
                takes_effect = step(ids, folded, envelope)
            except msgspec.MsgspecError as error:
                raise LogCorrupt(subject.name, envelope.seq, str(error)) from error
            if takes_effect:
                found.append(_Effect(kind, subject, envelope, envelope is last))
        self._folds[stored.subject] = subject, folded
        self._size += _size(folded) - before
        self._make_room()
        return found

    def _subject(self, shard: int, name: str, envelope: Recorded) -> Subject:
        found = self._core.namespace.parse(name)
        return found or Subject(name, shard, tuple(envelope.keys or ()))

    async def _read_again(
        self, ids: Kind[None], folded: Folded[None], subject: Subject, before: int
    ) -> None:
        async with aclosing(self._core.forked_log.read(subject)) as pages:
            async for records in pages:
                for record in records:
                    if record.seq >= before:
                        return
                    for envelope in record.envelopes:
                        step(ids, folded, envelope)

    def _make_room(self) -> None:
        while self._size > _REMEMBERED and len(self._folds) > 1:
            self._is_whole = False
            self._size -= _size(self._folds.pop(next(iter(self._folds)))[1])


def _size(folded: Folded[None]) -> int:
    return 1 + len(folded.seen) + len(folded.newest)


@functools.cache
def _ids_of(kind: Kind[Any]) -> Kind[None]:
    """What takes effect of a kind's records, and nothing else of them."""
    fold = Fold(
        _nothing,
        lambda state, envelope: None,
        takes="envelope",
        replaces=kind.replaces,
        forgets_ids=kind.forgets_ids,
    )
    ids = Kind("effects", of=kind, fold=fold)
    ids.digest_of = None  # whether an id stood for something else is nothing that takes effect
    return ids


def _nothing() -> None:
    return None
