"""Filling a scope's index with the texts of its values, which the log has, page by page.

While a page goes into the index, on a thread, the next one is on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Final, TypeVar

import msgspec

from foldlog.envelope import unpack
from foldlog.log.port import Stored
from foldlog.scoped import records, texts
from foldlog.scoped.index import Index
from foldlog.scoped.indexes import on
from foldlog.scoped.keys import Keys
from foldlog.scoped.scope import Scope
from foldlog.scoped.texts import Document

T = TypeVar("T")

OnProgress = Callable[[int, int], None]
"""Called with how many values were taken in, and of how many."""

_ASKED: Final = 64
"""So many keys lacking, or fewer, are asked for one by one whatever their scope holds."""

_BATCH: Final = 4 * 1024 * 1024
_DOCUMENTS: Final = 6000
"""Characters of text, or documents, that are taken in at once: large batches make few pieces to
merge.
"""

_AT_ONCE: Final = 64
"""Keys that are asked for side by side."""


async def fill(
    keys: Keys, scope: Scope, index: Index, on_progress: OnProgress | None = None
) -> bool:
    """Take in the texts that an index lacks; return whether it has lacked any.

    What was written meanwhile is not taken in: the index does not know of it yet.

    Raises:
        LogUnavailable, LogCorrupt: some are lacking; what it has is right.
        sqlite3.Error: it cannot be written, or is damaged.
    """
    left = await on(index, texts.untaken)
    total = len(left)

    def tell() -> None:
        if on_progress is not None:
            on_progress(total - len(left), total)

    if total > _ASKED:
        wanted = {version: key for key, version in left.items()}
        async with aclosing(_ahead(_batches(keys, scope, wanted))) as batches:
            async for batch in batches:
                await on(index, texts.take, batch)
                for each in batch:
                    left.pop(each.key, None)
                tell()
    rest = list(left)
    for start in range(0, len(rest), _AT_ONCE):
        asked = rest[start : start + _AT_ONCE]
        await on(index, texts.take, await _documents(keys, scope, asked))
        for key in asked:
            del left[key]
        tell()
    return total > 0


async def _batches(
    keys: Keys, scope: Scope, wanted: dict[str, str]
) -> AsyncGenerator[list[Document]]:
    """Yield what a walk through a scope brings of wanted keys, by version, and take it off those.

    Values that stand elsewhere are left: a page can lead to more of them than memory holds.
    """
    batch, size = list[Document](), 0
    async with aclosing(keys.lasts(scope)) as pages:
        async for page in pages:
            found = await asyncio.to_thread(_decoded, page, wanted)
            for each in found:
                wanted.pop(each.version, None)
                size += len(each.body)
            batch += found
            if size >= _BATCH or len(batch) >= _DOCUMENTS:
                yield batch
                batch, size = [], 0
            if not wanted:
                break
    yield batch


async def _ahead(source: AsyncGenerator[T]) -> AsyncGenerator[T]:
    """Yield what a generator does; while one item is used, the next one is made."""

    async def make() -> T | None:
        return await anext(source, None)

    making = asyncio.create_task(make(), name="foldlog fill")
    try:
        while (item := await making) is not None:
            making = asyncio.create_task(make(), name="foldlog fill")
            yield item
    finally:
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        await source.aclose()


async def _documents(keys: Keys, scope: Scope, asked: list[str]) -> list[Document]:
    """What there is of a few keys now."""
    found = await asyncio.gather(*(keys.present(scope, key) for key in asked))
    return [
        Document.of(key, held.version, records.decoded(payload, held))
        for key, (held, payload) in zip(asked, found, strict=True)
        if held is not None
    ]


def _decoded(page: list[Stored], wanted: Mapping[str, str]) -> list[Document]:
    """On a thread: the texts of what is wanted of a page, keys by version."""
    documents: list[Document] = []
    for stored in page:
        try:
            envelope = unpack(stored.data, stored.seq, stored.time)[-1]
        except msgspec.MsgspecError:
            continue  # a hint alone is nothing to fail on: the key is asked for by itself
        key = wanted.get(envelope.id)
        if key is not None:
            held = records.read(envelope)
            if held.written is not None and not held.written.blob:
                value = records.decoded(held.written.value, held)
                documents.append(Document.of(key, held.version, value))
    return documents
