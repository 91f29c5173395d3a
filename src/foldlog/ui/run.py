"""What a page shows: a session or a trace, as the views that are its, merged in log order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from heapq import heapify, heappop, heapreplace
from typing import Any, Final, Literal, NamedTuple

from foldlog.bounds import ANSWER_BYTES
from foldlog.kind import Key, Kind
from foldlog.opening import Store
from foldlog.position import LogPosition, Reach
from foldlog.store.core import core_of
from foldlog.store.ownership import views_of
from foldlog.store.primitives import Item
from foldlog.ui.plain import CUT, encode, record_of

PAGE: Final = 5_000
"""Records a page at most."""

Record = dict[str, Any]

_LATEST: Final = 1_000
"""Records of a view that are looked at for traces that are under way."""

_AHEAD: Final = 32
"""Records of a view that are read first, and then at a time."""

_MOST_AHEAD: Final = 128
_AHEAD_BYTES: Final = 512 * 1024


class Run(NamedTuple):
    """A session or a trace, by its id."""

    kind: Literal["session", "trace"]
    id: str

    async def views(self, store: Store) -> list[Key[Any]]:
        """The views that hold its records: of a session also those of traces that it names.

        A trace that is under way has no trajectory yet, by which it would belong to the session.
        Errors as `Store.views`.
        """
        if self.kind == "trace":
            return _of_trace(store, self.id)
        found = await views_of(core_of(store), self.id)
        named = await self._named_traces(store, found)
        return list(dict.fromkeys([*found, *(k for t in named for k in _of_trace(store, t))]))

    async def _named_traces(self, store: Store, views: Iterable[Key[Any]]) -> list[str]:
        naming = [key for key in views if key.kind.owner == "session" and _names_traces(key.kind)]
        pages = await asyncio.gather(
            *(
                store.items(key, limit=_LATEST, max_bytes=ANSWER_BYTES, newest_first=True)
                for key in naming
            )
        )
        names = dict.fromkeys(_trace_named(item) for page in pages for item in page)
        return [name for name in names if name is not None]


class Shown(NamedTuple):
    """A record as it is shown, and where it stands among those of other views."""

    place: tuple[float, int, int, float]
    key: Key[Any]
    position: LogPosition
    trace: str | None
    record: Record


class Page(NamedTuple):
    """Records in log order, all that there are up to `position`. `more`: there are more behind."""

    records: list[Record]
    position: LogPosition
    more: bool


async def read_page(
    store: Store,
    views: Sequence[Key[Any]],
    after: LogPosition | None,
    *,
    until: LogPosition | None = None,
    limit: int = PAGE,
    max_bytes: int = ANSWER_BYTES,
    cut: int | None = CUT,
) -> Page:
    """Return the records of many views behind a position, whole up to where the page ends.

    Args:
        until: nothing behind this position. None: up to now.
        limit: records at most.
        max_bytes: the page ends once its records have so many bytes of JSON.
        cut: see `Plain`.

    Errors as `Store.items`.
    """
    # Of what stands up to here, strong reads that begin later miss nothing.
    head = await store.position() if until is None else until
    behind = LogPosition(tuple(Reach(0) for _ in head.shards)) if after is None else after
    found, size = list[Shown](), 0
    async with aclosing(
        merged(store, dict.fromkeys(views, behind), head, partial(shown, cut=cut))
    ) as coming:
        async for each in coming:
            if len(found) == limit or size > max_bytes:
                records, end = placed(found, behind)
                return Page(records, end, bool(found))
            found.append(each)
            size += len(encode(each.record))
    records, end = placed(found, behind)
    return Page(records, _later(end, head), False)


async def merged(
    store: Store,
    views: Mapping[Key[Any], LogPosition],
    until: LogPosition,
    show: Callable[[Key[Any], Item], Shown],
    *,
    newest_first: bool = False,
) -> AsyncGenerator[Shown]:
    """Yield the records of many views, each behind its position, in log order up to another one.

    With `newest_first` from each position back to the beginning. Few records of each view are in
    memory at a time. Errors as `Store.items`.
    """

    async def some(key: Key[Any], behind: LogPosition, limit: int) -> deque[Shown]:
        items = await store.items(
            key,
            after=behind,
            limit=limit,
            max_bytes=_AHEAD_BYTES,
            newest_first=newest_first,
            consistency="strong",
        )
        # Shown before anything is awaited: of large records, one at a time is decoded.
        return deque(show(key, item) for item in items if item.position <= until)

    def rank(each: Shown) -> tuple[float, ...]:
        return tuple(-part for part in each.place) if newest_first else each.place

    keys = list(views)
    firsts = await asyncio.gather(*(some(key, views[key], _AHEAD) for key in keys))
    ahead = [(rank(found[0]), n, found) for n, found in enumerate(firsts) if found]
    heapify(ahead)
    while ahead:
        _, n, found = ahead[0]
        each = found.popleft()
        yield each
        if not found:
            await asyncio.sleep(0)  # others have their turn: what is in memory is read at once
            found = await some(keys[n], each.position, _MOST_AHEAD)
        if found:
            heapreplace(ahead, (rank(found[0]), n, found))
        else:
            heappop(ahead)


def shown(key: Key[Any], item: Item, cut: int | None = CUT) -> Shown:
    """Return an item as it is shown."""
    record = record_of(key, item, cut)
    return Shown(place_of(item), key, item.position, _trace_named(item), record)


def placed(found: Iterable[Shown], after: LogPosition) -> tuple[list[Record], LogPosition]:
    """Return records with their positions, which include what was before, and the last of these."""
    position, records = after, []
    for each in found:
        position = _later(position, each.position)
        if len(position.shards) > 1:  # of one shard a record that arrives late keeps its own place
            each.record["position"] = str(position)
        records.append(each.record)
    return records, position


def place_of(item: Item) -> tuple[float, int, int, float]:
    """Where an item stands among those of other views; of other shards by the log's clock."""
    shards = item.position.shards
    number = next((n for n, reach in enumerate(shards) if reach.seq), 0)
    at = item.recorded_at if len(shards) > 1 else 0.0
    return at, number, *shards[number].place


def _trace_named(item: Item) -> str | None:
    """The trace that a record names, if any."""
    found = getattr(item.record, "trace_id", None)
    return found if isinstance(found, str) and found else None


def _names_traces(kind: Kind[Any]) -> bool:
    return any("trace_id" in each.schema.__struct_fields__ for each in kind.records.values())


def _later(a: LogPosition, b: LogPosition) -> LogPosition:
    pairs = zip(a.shards, b.shards, strict=True)
    return LogPosition(tuple(x if x.place >= y.place else y for x, y in pairs))


def _of_trace(store: Store, trace_id: str) -> list[Key[Any]]:
    return [kind(trace_id) for kind in core_of(store).kinds_of("trace")]
