"""How a store comes by its scoped state."""

from __future__ import annotations

from pathlib import Path

from foldlog.scoped.cache import Cache
from foldlog.scoped.indexes import Indexes
from foldlog.scoped.keys import Keys
from foldlog.scoped.search import Search
from foldlog.scoped.store import ScopedStore
from foldlog.scoped.transient import Transient
from foldlog.store.blobs import BlobStore
from foldlog.store.removal import Removal


def scoped(
    journal: Removal, blobs: BlobStore, *, max_bytes: int, directory: Path | None
) -> ScopedStore:
    """Return the ScopedStore over a store's log.

    Args:
        max_bytes: how much memory values may take.
        directory: where search indexes may be kept; None for in memory.
    """
    keys = Keys(journal, blobs, Cache(max_bytes))
    # The stream's name tells the namespace, in characters that any file system takes.
    place = directory and directory / "search" / journal.forked_log.namespace.stream(0)
    return ScopedStore(keys, Transient(), [Search(keys, Indexes(journal, place))])
