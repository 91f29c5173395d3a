"""Stores whose old records stand in an archive, on a real server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import obstore

import foldlog
from foldlog import ArchiveLimits
from foldlog.log.archive import ArchivedLog
from tests.support.build import update
from tests.support.stores import fresh_namespace

LIMITS = ArchiveLimits(hot_bytes=20_000, segment_bytes=20_000, largest=10_000_000)


class Place:
    """Opens stores on one log and its archive. Each question reads the manifest."""

    def __init__(self, embedded: Path, archive: str | Path, objects: Any, options: Any) -> None:
        self.objects = objects
        self._archive = {"archive": archive, "archive_options": options}
        self._embedded = embedded
        self._namespace = fresh_namespace()
        self._opened: list[foldlog.Store] = []

    async def open(self, **options: Any) -> foldlog.Store:
        given: dict[str, Any] = {**self._archive, "archive_limits": LIMITS, **options}
        store = await foldlog.connect(path=self._embedded, namespace=self._namespace, **given)
        self._opened.append(store)
        if isinstance(store._core.log, ArchivedLog):
            store._core.log.manifests.believed = 0.0
        return store

    async def close(self) -> None:
        for store in self._opened:
            await store.close()

    def files(self, suffix: str = ".parquet") -> list[str]:
        pages = obstore.list(self.objects)
        names = sorted(each["path"] for page in pages for each in page)
        return [name for name in names if name.endswith(suffix)]


def copies_of(store: foldlog.Store) -> Path:
    """Where this machine has copies of the archive's files, or the files."""
    return log_of(store).segments._place.here.root


def log_of(store: foldlog.Store) -> ArchivedLog:
    assert isinstance(store._core.log, ArchivedLog)
    return store._core.log


async def fill(store: foldlog.Store, sessions: int = 10, each: int = 20) -> None:
    for n in range(each):
        saves = (store.save_update(update(f"u{n}", f"s{s}")) for s in range(sessions))
        await asyncio.gather(*saves)


async def ids(store: foldlog.Store, session: str, **options: Any) -> list[str]:
    found = await store.list_updates(session, limit=10_000, consistency="strong", **options)
    return [each.update_id for each in found]


ALL = [f"u{n}" for n in range(20)]
