"""Reading the log itself: every record as it is stored, of all views or of one session's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

import msgspec

from foldlog.envelope import Recorded, unpack
from foldlog.errors import LogCorrupt, PayloadError, shown
from foldlog.kind import Key
from foldlog.log.port import Stored
from foldlog.position import LogPosition
from foldlog.store.clearing import read_holdings, read_what_can_be, where
from foldlog.store.ownership import key_named, owned_by
from foldlog.store.primitives import Primitives
from foldlog.store.subscribing import Subscription
from foldlog.subjects import Subject, checked_id
from foldlog_projections import lineage


class LogRecord(msgspec.Struct, frozen=True, gc=False):
    """One record of the log, as it is stored: one or several envelopes of one view.

    Attributes:
        shard: the shard that holds it.
        seq: its sequence there; no two records have the same shard and sequence.
        time: the log's clock, RFC 3339.
        kind: the name of the view's kind.
        keys: the keys of the view.
        data: the record's bytes (`docs/reference/log-format.md`).
    """

    shard: int
    seq: int
    time: str
    kind: str
    keys: tuple[str, ...]
    data: bytes

    @property
    def envelopes(self) -> list[Recorded]:
        """The envelopes of the record, decoded; payloads stay encoded.

        Raises:
            LogCorrupt: the bytes are no record, or one of a newer version.
        """
        try:
            return unpack(self.data, self.seq, self.time)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(self.kind, self.seq, str(error)) from error


class Records(Primitives):
    """Reads records as they are stored."""

    async def records(
        self,
        *,
        kinds: Sequence[str] | None = None,
        session_id: str | None = None,
        after: LogPosition | None = None,
        until: LogPosition | None = None,
    ) -> AsyncGenerator[LogRecord]:
        """Yield every record of the log, each once: one shard after the other, each in log order.

        Tombstones and archived records are among them; what was purged is not, nor what is saved
        after the first record was asked for. Its memory does not grow with the log.

        Args:
            kinds: only records of the kinds of these names. None: all.
            session_id: only records that erasing this session would remove, and its lineage. What
                a fork shares is its origin's. None: all.
            after: only records behind this position. A record that a position includes in part is
                behind it. None: from the first record.
            until: only records up to and with this position. None: to where the log ends when the
                first record is asked for.

        Raises:
            NotFound: the store has no such kind.
            InvalidId: the session id is empty.
            PayloadError: a position is of another number of shards.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        log = self._core.forked_log
        families = None if kinds is None else {self._core.kind(name).family for name in kinds}
        begins = self._ends(after, "after")
        ends = await log.heads() if until is None else self._ends(until, "until")
        only: dict[int, list[str]] = defaultdict(list)
        if session_id is not None:
            for name, shard in await self._places_of(checked_id(session_id, "session_id")):
                if families is None or name.split(".", 4)[3] in families:
                    only[shard].append(name)
        for shard, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            if session_id is None and families is not None:
                only[shard] = [log.namespace.wildcard(shard, each) for each in sorted(families)]
            if (families is None and session_id is None) or only[shard]:
                async with aclosing(self._scanned(shard, begin, end, only[shard])) as found:
                    async for each in found:
                        yield each

    def subscribe(
        self,
        kinds: Sequence[str] | None = None,
        *,
        after: LogPosition | None = None,
        live: bool = True,
        by_time: bool = False,
    ) -> Subscription:
        """Follow the whole log: every record that takes effect in its view, typed, and once.

            async for item in store.subscribe(["updates"], after=position):
                print(item.keys, item.record)

        A repeat, or a save that came too late, has no effect and is left out, as in every view.
        Within a shard the order is the log's. What a fork shares is its origin's. Where a view is
        cleared or erased, an item says so. Its memory is bounded. It survives lost connections.

        Args:
            kinds: only records of the kinds of these names. None: all.
            after: only what is behind this position, as `LogItem.position` has it. None: all.
            live: go on with what comes. Otherwise it ends where the log ends.
            by_time: of several shards' records, have the older ones first, as far as both are there
                when they are read. Otherwise one shard comes after the other.

        Returns:
            What to iterate over with `async for`. It raises LogUnavailable only if it is not live.

        Raises:
            NotFound: the store has no such kind.
            UnknownMoment: `after`, or what was read, is not of this log: it was replaced.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        core = self._core
        wanted = core.kinds if kinds is None else {name: core.kind(name) for name in kinds}
        found = {
            kind.family: kind
            for kind in wanted.values()
            if kind.of is None and kind.records and not kind.of_storage
        }
        if after is not None:
            self._ends(after, "after")
        return Subscription(
            core, found, after, is_everything=kinds is None, live=live, by_time=by_time
        )

    def _ends(self, position: LogPosition | None, field: str) -> list[int]:
        shards = self._core.namespace.shards
        if position is None:
            return [0] * shards
        if not isinstance(position, LogPosition):
            raise PayloadError(field, f"{shown(position)} is no position: await store.position()")
        if len(position.shards) != shards:
            reason = f"{position} is of {len(position.shards)} shard(s), the log has {shards}"
            raise PayloadError(field, reason)
        return [reach.whole for reach in position.shards]

    async def _scanned(
        self, shard: int, begin: int, end: int, only: Sequence[str]
    ) -> AsyncGenerator[LogRecord]:
        if begin >= end:
            return
        async with aclosing(self._core.forked_log.scan(shard, after=begin, only=only)) as pages:
            async for page in pages:
                for stored in page:
                    if stored.seq > end:
                        return
                    yield await self._log_record(shard, stored)
                if page[-1].seq == end:
                    return

    async def _log_record(self, shard: int, stored: Stored) -> LogRecord:
        subject = self._core.namespace.parse(stored.subject)
        keys = await self._hashed_keys(shard, stored) if subject is None else subject.keys
        family = stored.subject.split(".", 4)[3]
        return LogRecord(shard, stored.seq, stored.time, family, keys, stored.data)

    async def _hashed_keys(self, shard: int, stored: Stored) -> tuple[str, ...]:
        """The keys of a hashed subject, which its envelopes tell."""
        try:
            found = stored.record().envelopes[-1].keys
        except LogCorrupt:
            last = await self._core.forked_log.last(Subject(stored.subject, shard, ()))
            found = None if last is None else last.envelopes[-1].keys
        if not found:
            reason = "the keys of a hashed subject are missing"
            raise LogCorrupt(stored.subject, stored.seq, reason)
        return tuple(found)

    async def _places_of(self, session_id: str) -> list[tuple[str, int]]:
        """The filters over all that is a session's, each with its shard."""
        origin = (await read_what_can_be(self._core, lineage.kind, session_id)).state.origin
        areas = await owned_by(self._core, session_id, origin)
        own = [self._core.subject(name, session_id) for name in (lineage.kind.name, lineage.MARKER)]
        named = [
            each for area in areas if isinstance(area, Key) for each in await self._named_by(area)
        ]
        found = [*own, *(where(self._core, each) for each in (*areas, *named))]
        return list(dict.fromkeys((each.name, each.shard) for each in found))

    async def _named_by(self, key: Key[Any]) -> list[Key[Any]]:
        """The views that come with this one, because it names them."""
        if key.kind.pointers is None:
            return []
        [held] = await read_holdings(self._core, key)
        return [key_named(self._core, *pair) for pair in held.pointers]
