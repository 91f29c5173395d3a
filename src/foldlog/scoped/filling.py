"""Filling a scope's index with the texts of its values, which the log has, page by page.

While a page goes into the index, on a thread, the next one is on its way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Final

from foldlog.envelope import Recorded
from foldlog.errors import FoldlogError
from foldlog.scoped import records, texts
from foldlog.scoped.index import Index
from foldlog.scoped.indexes import on
from foldlog.scoped.keys import Keys, decoded
from foldlog.scoped.records import Held
from foldlog.scoped.scope import Scope
from foldlog.scoped.text import text_of
from foldlog.scoped.texts import Document

OnProgress = Callable[[int, int], None]
"""Called with how many values were taken in, and of how many."""

_ASKED: Final = 64
"""So many keys lacking, or fewer, are asked for one by one whatever their scope holds."""

_AT_ONCE: Final = 64
"""Keys that are asked for side by side."""


async def fill(
    keys: Keys, scope: Scope, index: Index, on_progress: OnProgress | None = None
) -> bool:
    """Take in the texts that an index lacks; return whether it has lacked any.

    What was written meanwhile is not taken in: the index does not know of it yet.

    Raises:
        LogUnavailable, LogCorrupt: some are lacking; what it has is right.
        sqlite3.Error: it cannot be kept, or is damaged.
    """
    left = await on(index, texts.untaken)
    total = len(left)

    def tell() -> None:
        if on_progress is not None:
            on_progress(total - len(left), total)

    if total > _ASKED:
        async with aclosing(keys.lasts(scope)) as pages:
            async for page in pages:
                taken = await on(index, _take, filter(None, map(records.hinted, page)), left)
                for key in taken:
                    left.pop(key, None)
                tell()
                if not left:
                    break
    rest = list(left)
    for start in range(0, len(rest), _AT_ONCE):
        asked = rest[start : start + _AT_ONCE]
        await on(index, texts.take, await _documents(keys, scope, asked))
        for key in asked:
            del left[key]
        tell()
    return total > 0


async def _documents(keys: Keys, scope: Scope, asked: list[str]) -> list[Document]:
    """What there is of a few keys now."""
    found: list[Document] = []

    async def fetch(key: str) -> None:
        held, payload = await keys.present(scope, key)
        if held is not None:
            found.append(Document(key, held.version, text_of(decoded(payload, held))))

    try:
        async with asyncio.TaskGroup() as group:
            for key in asked:
                group.create_task(fetch(key))
    except* FoldlogError as errors:
        raise _first(errors) from None
    return found


def _take(
    index: Index, found: Iterable[tuple[str, Recorded]], wanted: Mapping[str, str]
) -> list[str]:
    """On a thread: decode what is wanted of the found, and have the index take it in; its keys.

    Values that stand elsewhere are left: a page can lead to more of them than memory holds.
    """
    documents: list[Document] = []
    for key, envelope in found:
        if wanted.get(key) == envelope.id:
            held: Held = records.read(envelope)
            if held.written is None or not held.written.blob:
                documents.append(Document(key, held.version, text_of(records.value(held))))
    if documents:
        texts.take(index, documents)
    return [each.key for each in documents]


def _first(errors: BaseExceptionGroup[FoldlogError]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
