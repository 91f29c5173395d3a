"""Following the whole log: what takes effect in any view, once, from a position on, and live."""

from __future__ import annotations

import asyncio
import functools
import heapq
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any, Final, NamedTuple

from foldlog.envelope import CLEARED, FORKED, Recorded
from foldlog.errors import LogUnavailable
from foldlog.kind import Fold, Kind
from foldlog.log import moments
from foldlog.log.forks import ForkedLog
from foldlog.log.past import cut
from foldlog.log.port import Log, Record, Stored
from foldlog.position import LogPosition, Reach, mark_of
from foldlog.store.core import Core
from foldlog.store.primitives import decoded
from foldlog.subjects import Branch, Subject
from foldlog.upcasting import UPCASTERS
from foldlog.views.fold import stepped
from foldlog.views.watching import woken
from foldlog_projections.fold import Folded, start

_REMEMBERED: Final = 500_000
"""How much a subscription remembers: views that it met last, their ids, and what was replaced.
An id takes 120 bytes; a view that it has forgotten is read again, which takes a hundred times as
long."""

_ID_BYTES: Final = 250
"""Bytes of a record in a state that count as one of these."""

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
        past = self._core.past
        until = None if past is None else (await past.moment()).position
        reading = Reading(log_below(self._core), self._kinds, self._families, self._after)
        wake, followers = asyncio.Event(), self._core.hot_views.followers
        async with AsyncExitStack() as listening, AsyncExitStack() as following:
            for wakes in (followers, self._wakes):
                wakes.add(wake)
                listening.callback(wakes.discard, wake)
            is_following = False
            while True:
                wake.clear()
                self._core.hot_views.check()
                is_new = False
                try:
                    async with aclosing(reading.round(until, by_time=self._by_time)) as pages:
                        async for page in pages:
                            is_new |= bool(page)
                            items = [reading.item(each) for each in page]
                            yield Page(items, reading.position())
                except LogUnavailable as error:
                    if not self._live:
                        raise
                    _log.info("a subscription waits for the log: %s", error)
                    reading.begin_again()
                if not self._live:
                    return
                if is_new:  # more may have come meanwhile: a push of each would only cost
                    await following.aclose()
                    is_following = False
                elif is_following:
                    await woken(wake)
                else:  # and look once more, for what came in between
                    await self._follow(wake, following)
                    is_following = True

    async def _follow(self, wake: asyncio.Event, following: AsyncExitStack) -> None:
        """Have an event set whenever there may be more: by push, which is only a hint."""
        self._core.hot_views.check()
        log = self._core.forked_log
        for shard in range(log.namespace.shards):
            for family in self._families or (None,):
                every = Branch(log.namespace.wildcard(shard, family), shard)
                unfollow = await log.follow(every, functools.partial(_set, wake))
                following.push_async_callback(unfollow)


def _set(wake: asyncio.Event, _: Record) -> None:
    wake.set()


def log_below(core: Core) -> Log:
    """The log that a store's moment is of, through forks: to read up to a position in it."""
    return core.forked_log if core.past is None else ForkedLog(core.past.below)


class Reading:
    """How far a subscription has come, and what it has to remember.

    Args:
        log: the log, seen through forks.
        kinds: the kinds that are wanted, by family.
        families: those that are read of the log. None: all.
        after: where to begin. None: at the log's first record.
        fold: a kind's fold, whose states effects then have. None: what takes effect alone.
        remembers: how much, where that is not what subscriptions do.
    """

    def __init__(
        self,
        log: Log,
        kinds: Mapping[str, Kind[Any]],
        families: Sequence[str] | None,
        after: LogPosition | None,
        fold: Kind[Any] | None = None,
        remembers: int | None = None,
    ) -> None:
        self._log = log
        self._kinds = kinds
        self._families = families
        none = (Reach(0),) * log.namespace.shards
        self._reaches = [*(none if after is None else after.shards)]
        self._effects = _Effects(log, fold, remembers or _REMEMBERED, is_whole=after is None)
        self._epoch: int | None = None
        self._is_new = True

    def begin_again(self) -> None:
        """Forget what was read and not yielded."""
        kept = self._effects
        self._effects = _Effects(self._log, kept.fold, kept.remembers, is_whole=False)

    async def round(
        self, until: LogPosition | None = None, *, by_time: bool = False
    ) -> AsyncGenerator[list[Effect]]:
        """Yield what there is by now behind where it was, page by page; an empty one at the end.

        Args:
            until: a position behind where it was: end exactly there.
            by_time: see `Store.subscribe`.
        """
        epoch = self._log.epoch
        if epoch != self._epoch:  # it is the log that it was
            await moments.resolve(self._log, self.position())
            self._epoch = epoch
        heads = until.shards if until else [Reach(seq) for seq in await self._log.heads()]
        shards = [
            self._pages(shard, head, None if until is None else head)
            for shard, head in enumerate(heads)
            if head.seq > self._reaches[shard].whole
        ]
        async with AsyncExitStack() as reading:
            for each in shards:
                await reading.enter_async_context(aclosing(each))
            async for page in _merged(shards) if by_time and len(shards) > 1 else _joined(shards):
                yield page
        if shards or self._is_new:
            self._is_new = False
            # The scan may have gone further than the head was; never less far.
            for shard, head in enumerate(heads):
                if head.seq > self._reaches[shard].whole:
                    reach = head if until else await moments.reach(self._log, shard, head.seq)
                    self._reaches[shard] = reach
            yield []

    async def _pages(
        self, shard: int, head: Reach, until: Reach | None
    ) -> AsyncGenerator[list[Effect]]:
        """Yield what takes effect of a shard, page by page, up to its head at least."""
        only = [self._log.namespace.wildcard(shard, each) for each in self._families or ()]
        begin = self._reaches[shard]
        async with aclosing(self._log.scan(shard, after=begin.whole, only=only)) as pages:
            async for page in pages:
                found: list[Effect] = []
                for stored in page:
                    if until is not None and stored.seq > until.seq:
                        break
                    kind = self._kinds.get(stored.subject.split(".", 4)[3])
                    if kind is None:
                        continue
                    effects = await self._effects.of(shard, kind, stored, until)
                    found += [
                        each
                        for each in effects
                        if (each.envelope.seq, each.envelope.index) > begin.place
                    ]
                if found:
                    yield found
                if page[-1].seq > head.seq:
                    return

    def item(self, effect: Effect) -> LogItem:
        """What a subscriber is given of an effect, which it has then read."""
        kind, subject, e, _, _ = effect
        self.passed(effect)
        record = None if e.type == CLEARED else decoded(kind, UPCASTERS.bring_up(e))
        return LogItem(
            kind.name,
            subject.keys,
            e.id,
            e.type,
            record,
            e.ts,
            e.recorded_at,
            self.position(),
            e.writer,
            e.n,
        )

    def passed(self, effect: Effect) -> None:
        """Note that all up to an effect was read."""
        e = effect.envelope
        index = None if effect.is_last else e.index
        self._reaches[effect.subject.shard] = Reach(e.seq, index, mark_of(e.id))

    def shrink(self) -> None:
        """Remember a tenth of what it may, until it goes on."""
        self._effects.shrink(_REMEMBERED // 10)

    def position(self) -> LogPosition:
        """How far it has come."""
        return LogPosition(tuple(self._reaches))


class Effect(NamedTuple):
    """An envelope that takes effect, whether it is the last of its record, and its view's fold."""

    kind: Kind[Any]
    subject: Subject
    envelope: Recorded
    is_last: bool
    folded: Folded[Any]


async def _joined(
    shards: Sequence[AsyncGenerator[list[Effect]]],
) -> AsyncGenerator[list[Effect]]:
    for shard in shards:
        async for page in shard:
            yield page


async def _merged(
    shards: Sequence[AsyncGenerator[list[Effect]]],
) -> AsyncGenerator[list[Effect]]:
    """Yield what several shards give by the time at which it was stored."""
    waiting: dict[int, list[Effect]] = {}
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
        found: list[list[Effect]] = []
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

    def __init__(self, log: Log, fold: Kind[Any] | None, remembers: int, *, is_whole: bool) -> None:
        self.fold = fold
        self.remembers = remembers
        self._log = log
        self._is_whole = is_whole
        self._folds: dict[str, tuple[Subject, Folded[Any], int]] = {}
        self._size = 0

    async def of(
        self, shard: int, kind: Kind[Any], stored: Stored, until: Reach | None = None
    ) -> list[Effect]:
        """The envelopes of a record that take effect. Raises LogCorrupt."""
        record = stored.record()
        last = record.envelopes[-1]
        envelopes = record.envelopes if until is None else cut(record, until).envelopes
        fold = self.fold or _ids_of(kind)
        known = self._folds.pop(stored.subject, None)
        if known is not None:
            subject, folded, size = known
        else:
            subject, folded = self._subject(shard, stored.subject, last), start(fold)
            if not self._is_whole or envelopes[0].type == FORKED:
                await self._read_again(fold, folded, subject, stored.seq)
            size = 1 + len(folded.seen) + len(folded.newest)
            self._size += size
        before, found = len(folded.seen) + len(folded.newest), list[Effect]()
        for envelope in envelopes:
            takes_effect = stepped(fold, folded, envelope, subject.name)
            if takes_effect or (envelope.type == FORKED and self.fold is not None):
                found.append(Effect(kind, subject, envelope, envelope is last, folded))
                if self.fold is not None:  # its state has the record
                    size += len(envelope.payload) // _ID_BYTES
                    self._size += len(envelope.payload) // _ID_BYTES
        grown = len(folded.seen) + len(folded.newest) - before
        self._folds[stored.subject] = subject, folded, size + grown
        self._size += grown
        self.shrink(self.remembers)
        return found

    def _subject(self, shard: int, name: str, envelope: Recorded) -> Subject:
        found = self._log.namespace.parse(name)
        return found or Subject(name, shard, tuple(envelope.keys or ()))

    async def _read_again(
        self, fold: Kind[Any], folded: Folded[Any], subject: Subject, before: int
    ) -> None:
        async with aclosing(self._log.read(subject)) as pages:
            async for records in pages:
                for record in records:
                    if record.seq >= before:
                        return
                    for envelope in record.envelopes:
                        stepped(fold, folded, envelope, subject.name)

    def shrink(self, most: int) -> None:
        """Remember so much at most, but for the view that it met last."""
        while self._size > most and len(self._folds) > 1:
            self._is_whole = False
            self._size -= self._folds.pop(next(iter(self._folds)))[2]


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
