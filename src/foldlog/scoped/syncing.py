"""Bringing a search index up to date: what it lacks is read from the log, page by page.

While a page goes into the index, on a thread, the next one is on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import aclosing
from itertools import takewhile
from typing import Any, Final, NamedTuple

from foldlog.envelope import Recorded
from foldlog.errors import FoldlogError
from foldlog.scoped import records
from foldlog.scoped.index import Document, Index
from foldlog.scoped.keys import Keys, decoded
from foldlog.scoped.models import NEUTRAL, MemoryTier
from foldlog.scoped.records import Held
from foldlog.scoped.scope import Scope
from foldlog.scoped.text import text_of
from foldlog.scoped.threads import Threads
from foldlog.views import Consistency
from foldlog_projections.fold import Folded
from foldlog_projections.scopes import Entry, State

_ASKED: Final = 64
"""So many keys lacking, or fewer, are asked for one by one whatever their scope holds."""

_WALKED: Final = 32
"""One in so many keys lacking, it costs less to read all of a scope in one walk."""

_AT_ONCE: Final = 64
"""Keys that are asked for side by side."""


class Plan(NamedTuple):
    """What an index may lack: entries by key, keys that are gone, and how far it then goes.

    Of a `complete` one, whatever it does not name is to go. `keys`: how many the scope has.
    """

    changed: dict[str, Entry]
    gone: list[str]
    synced: tuple[int, str]
    keys: int
    complete: bool


class Syncing:
    """Fills the search indexes of a store's scopes from its log."""

    def __init__(self, keys: Keys, threads: Threads) -> None:
        self._keys = keys
        self._threads = threads

    async def sync(self, scope: Scope, index: Index, consistency: Consistency) -> None:
        """Bring an index up to date.

        Raises:
            LogUnavailable, LogCorrupt: it is behind; what it has is right.
            sqlite3.Error: it cannot be kept, or is damaged.
        """
        synced = await self._threads.on(index, index.synced)
        plan = planned(await self._keys.index(scope, consistency), synced)
        if plan.complete and synced[0] and consistency != "strong":
            # Another process, which had heard of more, may have brought the file up to date. It is
            # not to be set back, nor every key compared.
            plan = planned(await self._keys.index(scope, "strong"), synced)
        if plan.synced == synced:
            return
        wanted, gone = await self._threads.on(index, _lacking, index, plan)
        if len(wanted) > max(_ASKED, plan.keys // _WALKED):
            await self._walk(scope, index, wanted)
        await self._ask(scope, index, wanted)
        await self._threads.on(index, index.apply, (), gone, plan.synced)

    async def _walk(self, scope: Scope, index: Index, left: dict[str, str]) -> None:
        """Take in what a walk through the scope brings of what `left` names, by version."""
        async with aclosing(self._keys.lasts(scope)) as pages:
            async for page in pages:
                await self._take(index, filter(None, map(records.hinted, page)), left)
                if not left:
                    return

    async def _ask(self, scope: Scope, index: Index, left: dict[str, str]) -> None:
        """Take in what each key that `left` names holds now, or have it go."""
        rest = list(left)
        for start in range(0, len(rest), _AT_ONCE):
            asked = rest[start : start + _AT_ONCE]
            present = await self._found(scope, asked)
            documents = (
                _document(key, held, decoded(payload, held))
                for key, (held, payload) in present.items()
            )
            gone = [key for key in asked if key not in present]
            await self._threads.on(index, index.apply, documents, gone)

    async def _take(
        self, index: Index, found: Iterable[tuple[str, Recorded]], left: dict[str, str]
    ) -> None:
        """Take in those of the found that `left` names, and have it name them no more.

        Values that stand elsewhere are left: a page can lead to more of them than memory holds.
        """
        for key in await self._threads.on(index, _take, index, found, left):
            left.pop(key, None)

    async def _found(self, scope: Scope, keys: list[str]) -> dict[str, tuple[Held, bytes]]:
        """What there is of a few keys now, by key; of those that are gone, nothing."""
        present: dict[str, tuple[Held, bytes]] = {}

        async def fetch(key: str) -> None:
            held, payload = await self._keys.present(scope, key)
            if held is not None:
                present[key] = held, payload

        try:
            async with asyncio.TaskGroup() as group:
                for key in keys:
                    group.create_task(fetch(key))
        except* FoldlogError as errors:
            raise _first(errors) from None
        return present


def planned(folded: Folded[State], synced: tuple[int, str]) -> Plan:
    """What an index lacks that goes as far as `synced`; all, if that is not of this log. Pure."""
    state = folded.state
    count, version = synced
    goes_to = (len(folded.seen), next(reversed(folded.seen), ""))
    if folded.seen.get(version) != count - 1:
        return Plan(state.entries.copy(), [], goes_to, len(state.entries), complete=True)
    since = count - (len(folded.seen) - state.count)  # some of those seen were overtaken
    changed = takewhile(lambda item: item[1].ordinal >= since, reversed(state.entries.items()))
    gone = takewhile(lambda item: item[1] >= since, reversed(state.gone.items()))
    left = [key for key, _ in gone]
    return Plan(dict(changed), left, goes_to, len(state.entries), complete=False)


def _lacking(index: Index, plan: Plan) -> tuple[dict[str, str], list[str]]:
    """On a thread: the keys that an index has not as planned, with their versions; and those that
    are to go."""
    have = index.versions(None if plan.complete else list(plan.changed))
    wanted = {
        key: entry.version for key, entry in plan.changed.items() if have.get(key) != entry.version
    }
    gone = [key for key in have if key not in plan.changed] if plan.complete else plan.gone
    return wanted, gone


def _take(
    index: Index, found: Iterable[tuple[str, Recorded]], wanted: Mapping[str, str]
) -> list[str]:
    """On a thread: decode what is wanted of the found, and have the index take it in; its keys."""
    documents: list[Document] = []
    for key, envelope in found:
        if wanted.get(key) != envelope.id:
            continue
        held = records.read(envelope)
        if held.written is None or not held.written.blob:
            documents.append(_document(key, held, records.value(held)))
    if documents:
        index.apply(documents)
    return [each.key for each in documents]


def _document(key: str, held: Held, value: Any) -> Document:
    written = held.written
    assert written is not None, "what was deleted cannot be found"
    ends = held.envelope.recorded_at + written.ttl / 1000 if written.ttl >= 0 else 0.0
    return Document(
        key,
        held.version,
        text_of(value),
        written.tier or MemoryTier.HOT,
        written.content_kind,
        NEUTRAL if written.salience is None else written.salience,
        ends,
    )


def _first(errors: BaseExceptionGroup[FoldlogError]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
