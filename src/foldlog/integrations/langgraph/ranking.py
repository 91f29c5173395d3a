"""How well items answer a query: by meaning where the store has an index, else by their words."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from foldlog import codec
from foldlog.batches import in_batches
from foldlog.integrations.langgraph.installed import (
    Embeddings,
    IndexConfig,
    ensure_embeddings,
    get_text_at_path,
)
from foldlog.integrations.langgraph.items import ItemLog, by_namespace
from foldlog.integrations.langgraph.search import Labels
from foldlog.opening import Store
from foldlog.scoped.documents import Documents, Filter, Hit, Text, on
from foldlog.scoped.text import terms, text_of
from foldlog.scoped.vectors import embed, name_of
from foldlog.store.core import core_of
from foldlog_projections.langgraph.langgraphitems import Embedded, Entry

_EMBEDDED: Final = 128
"""Items whose texts an embedder is given at a time."""

_WHOLE: Final = ("$",)

_MOST: Final = 100_000
"""Texts, or items' vectors, that are kept before those that nobody asks for are let go of."""

Scores = list[float | None]


class Found(NamedTuple):
    """An item that a search looks at."""

    labels: Labels
    key: str
    entry: Entry

    def value(self) -> Any:
        """What it holds: a new object."""
        return codec.decode(self.entry.value)


class _Ranking:
    """Scores of items, by scoped state's search of documents, in memory: it grows as it is asked.

    A document is what one record put, and never changes.
    """

    def __init__(self) -> None:
        self._documents = Documents()
        self._known: set[tuple[str, str]] = set()
        self._turn = asyncio.Lock()

    async def _found(
        self,
        items: Sequence[Found],
        model: str,
        find: Callable[[Documents, Sequence[Found]], list[Hit]],
    ) -> Scores:
        """Have a document of each item, and give those that are new to a function which finds.

        `model`: what makes the vectors that are looked at; "" for texts.
        """
        async with self._turn:
            if len(self._known) > max(_MOST, 2 * len(items)):
                self._documents, self._known = Documents(), set()
            new = [each for each in items if (each.entry.put, model) not in self._known]

            def found(documents: Documents) -> list[Hit]:
                documents.write([(each.entry.put, each.entry.put) for each in new])
                return find(documents, new)

            hits = await on(self._documents, found, within="IMMEDIATE")
            self._known.update((each.entry.put, model) for each in new)
        scores = {hit.key: hit.score for hit in hits}
        return [scores.get(each.entry.put) for each in items]


class ByWords(_Ranking):
    """Ranks by the words of a value, or of those parts of it that an item names."""

    async def scores(self, store: Store, items: Sequence[Found], query: str) -> Scores:
        """Return the items' scores, from 0 to 1; None without a word of the query."""
        words = terms(query)

        def find(documents: Documents, new: Sequence[Found]) -> list[Hit]:
            texts = (("\n".join(_texts(each, each.entry.paths)), each) for each in new)
            documents.take([Text.of(each.entry.put, "", text) for text, each in texts])
            return documents.matching(words, Filter())

        return await self._found(items, "", find)


class ByMeaning(_Ranking):
    """Ranks by the vectors that LangGraph's embeddings make of the parts of a value.

    Items get their vectors when they are first searched: of what is stored, and once for all
    processes, since the log holds them.
    """

    def __init__(self, config: IndexConfig, log: ItemLog) -> None:
        super().__init__()
        self.embeddings: Embeddings = ensure_embeddings(config.get("embed"))
        fields = config.get("fields") or config.get("text_fields") or _WHOLE
        self._paths = (fields,) if isinstance(fields, str) else tuple(fields)
        self._name = f"{_model(self.embeddings)} {config.get('dims')}"
        self._log = log
        self._embedding = asyncio.Lock()

    async def scores(self, store: Store, items: Sequence[Found], query: str) -> Scores:
        """Return the items' cosines with the query; None for those that have no vectors.

        Raises:
            EmbedderFailed, ConfigurationError: see `foldlog.scoped`. Others as `Store.append`.
        """
        async with self._embedding:
            vectors = await self._vectors(store, items)

        async def asked(texts: list[str]) -> list[list[float]]:
            return [await self.embeddings.aembed_query(each) for each in texts]

        [vector] = await embed(asked, [query], asyncio.to_thread)
        made = {each.entry.put: its for each, its in zip(items, vectors, strict=True)}

        def find(documents: Documents, new: Sequence[Found]) -> list[Hit]:
            kept = [(each.entry.put, each.entry.put, made[each.entry.put]) for each in new]
            documents.put_vectors(self._name, kept)
            return documents.nearest(self._name, vector, Filter(), above=-math.inf)

        return await self._found(items, self._name, find)

    async def _vectors(self, store: Store, items: Sequence[Found]) -> list[tuple[bytes, ...]]:
        """Return the items' vectors; make and save the missing ones."""
        vectors = [each.entry.vectors for each in items]
        lacking = [
            number
            for number, each in enumerate(items)
            if each.entry.paths != () and each.entry.model != self._made_by(each.entry)
        ]
        for some in in_batches(lacking, _EMBEDDED):
            made = await self._embedded([items[number] for number in some])
            for number, record in zip(some, made, strict=True):
                vectors[number] = record.vectors
            if not core_of(store).reads_only:
                records = zip((items[number].labels for number in some), made, strict=True)
                await self._log.embed(store, by_namespace(records))
        return vectors

    async def _embedded(self, items: Sequence[Found]) -> list[Embedded]:
        texts = [_texts(each, self._paths_of(each.entry)) for each in items]
        flat = [text for several in texts for text in several]
        made = iter(await embed(self.embeddings.aembed_documents, flat, asyncio.to_thread))
        return [
            Embedded(
                each.key,
                each.entry.put,
                self._made_by(each.entry),
                tuple(next(made) for _ in several),
            )
            for each, several in zip(items, texts, strict=True)
        ]

    def _paths_of(self, entry: Entry) -> tuple[str, ...]:
        return self._paths if entry.paths is None else entry.paths

    def _made_by(self, entry: Entry) -> str:
        """What makes the vectors of an item: the embeddings, and the paths of its parts."""
        return "\n".join((self._name, *self._paths_of(entry)))


def _texts(item: Found, paths: Iterable[str] | None) -> list[str]:
    """The parts of a value at paths; without any, the whole value as one text."""
    value = item.value()
    if paths is None:
        return [text_of(value)]
    return [text for path in paths for text in _text_at(value, path) if text]


def _text_at(value: Any, path: str) -> Iterator[str]:
    if path == "$":
        yield json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
        return
    try:
        yield from get_text_at_path(value, path)
    except TypeError:  # a part is no JSON
        yield text_of(value)


def _model(embeddings: Embeddings) -> str:
    """The name under which vectors are saved: they are never compared with another model's."""
    for name in ("model", "model_name", "model_id"):
        named = getattr(embeddings, name, None)
        if isinstance(named, str) and named:
            return named
    function = getattr(embeddings, "func", None) or getattr(embeddings, "afunc", None)
    return name_of(function or embeddings)
