"""A LangGraph store's items on the log: one view a namespace, and one of the namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from itertools import compress
from typing import Any, TypeVar

import msgspec

from foldlog.batches import side_by_side
from foldlog.errors import AppendConflict, FoldlogError, LogUnavailable
from foldlog.integrations.langgraph.search import Labels, expiring, is_listed, namespaces
from foldlog.kind import Key
from foldlog.opening import Store
from foldlog.store.core import core_of
from foldlog.views import Consistency
from foldlog_projections.langgraph import langgraphitems, langgraphnamespaces
from foldlog_projections.langgraph.langgraphitems import Entry, Items, Swept, path_of
from foldlog_projections.langgraph.langgraphnamespaces import Added, Tree

S = TypeVar("S")
T = TypeVar("T")


class ItemLog:
    """The items of one LangGraph store, by the name under which the log holds them.

    All are on one shard, so that any append of them is all or nothing.
    """

    def __init__(self, name: str, consistency: Consistency) -> None:
        self._name = name
        self._consistency = consistency

    def key_of(self, labels: Labels) -> Key[Items]:
        """The view of a namespace."""
        return langgraphitems.kind(self._name, path_of(labels))

    async def namespaces(self, store: Store, prefix: Sequence[str] = ()) -> list[Labels]:
        """Return the namespaces that begin so and have had items, in order. Errors as `query`."""

        def begin_so(tree: Tree) -> list[Labels]:
            return list(namespaces(tree, prefix))

        return await self._ask(store, langgraphnamespaces.kind(self._name), begin_so)

    async def query(
        self, store: Store, wanted: Sequence[Labels], question: Callable[[Labels, Items], T]
    ) -> list[T]:
        """Return what a function finds in each of some namespaces, in order.

        Errors as `Store.view`.
        """

        async def ask(labels: Labels) -> T:
            return await self._ask(
                store, self.key_of(labels), lambda items: question(labels, items)
            )

        return await side_by_side(wanted, ask)

    async def _ask(self, store: Store, key: Key[S], question: Callable[[S], T]) -> T:
        return await store.view(key, question, consistency=self._consistency)

    async def append(
        self,
        store: Store,
        records: Mapping[Labels, Sequence[msgspec.Struct]],
        added: Iterable[Added] = (),
    ) -> None:
        """Append records to namespaces, all or none, and note those that were `added`.

        Nothing is awaited before the records are drafted: of two calls the later one stands.
        Errors as `Store.append`.
        """
        tree, noted = langgraphnamespaces.kind(self._name), dict.fromkeys(added)
        found = store.peek(tree, lambda t: [each for each in noted if not is_listed(t, each)])
        new = list(noted) if found is None else found
        if not new and len(records) == 1:
            [(labels, several)] = records.items()
            await store.append(self.key_of(labels), *several)
            return
        async with store.atomic():
            if new:
                await store.append(tree, *new)
            for labels, several in records.items():
                await store.append(self.key_of(labels), *several)
        if new and found is None:  # so that the next append knows what is listed
            with suppress(FoldlogError):
                await store.view(tree, len)

    async def embed(
        self, store: Store, records: Mapping[Labels, Sequence[langgraphitems.Embedded]]
    ) -> None:
        """Keep vectors of what was put: not where that was put again since, or removed.

        Never part of an `atomic()` block. The next search makes the vectors that cannot be saved
        now: constant writes of others, and an unavailable log, are no error.
        """
        await asyncio.gather(
            *(self._embed(store, self.key_of(labels), each) for labels, each in records.items())
        )

    async def _embed(
        self, store: Store, key: Key[Items], records: Sequence[langgraphitems.Embedded]
    ) -> None:
        def decide(items: Items) -> list[langgraphitems.Embedded]:
            return [each for each in records if _is_held(items, each)]

        deciding = store.decide(key, decide, copy=False)
        with suppress(AppendConflict, LogUnavailable):
            await asyncio.create_task(deciding, context=Context())  # which is in no atomic() block

    async def erase(self, store: Store, prefix: Sequence[str]) -> None:
        """Remove the namespaces that begin so, with their history. Errors as `Store.delete`."""
        for labels in await self.namespaces(store, prefix):
            await store.erase(self.key_of(labels))

    async def sweep(self, store: Store) -> int:
        """Remove the items whose time is over; return how many. Errors as `Store.decide`."""
        wanted = await self._ask(store, langgraphnamespaces.kind(self._name), expiring)
        now = core_of(store).now()
        are_due = await self.query(
            store, wanted, lambda _, items: any(each.is_over(now) for each in items.values())
        )
        return sum([await self._sweep(store, each) for each in compress(wanted, are_due)])

    async def _sweep(self, store: Store, labels: Labels) -> int:
        now, over = core_of(store).now(), list[Entry]()

        def decide(items: Items) -> list[msgspec.Struct]:
            over[:] = [entry for entry in items.values() if entry.is_over(now)]
            return [Swept(now)] if over else []

        await store.decide(self.key_of(labels), decide, copy=False)
        return len(over)


def _is_held(items: Items, record: langgraphitems.Embedded) -> bool:
    """Whether what the vectors were made of is what its key holds."""
    entry = items.get(record.key)
    return entry is not None and entry.put == record.put


def by_namespace(records: Iterable[tuple[Labels, Any]]) -> dict[Labels, list[Any]]:
    """Group records by their namespace, in order."""
    found: dict[Labels, list[Any]] = {}
    for labels, record in records:
        found.setdefault(labels, []).append(record)
    return found
