"""Scoped state: keys in scopes, with search, links, and lifetimes that are honoured.

`store.scoped` is the ScopedStore of an open store, `store.scoped.reader` its ScopedReader. The
protocol is that of the crate layer0, 0.4: its names, its arguments and its JSON.
"""

from foldlog.scoped.effects import Effect
from foldlog.scoped.embedding import OfflineEmbedder
from foldlog.scoped.errors import EmbedderFailed, SearchFailed, VersionConflict
from foldlog.scoped.models import (
    ContentKind,
    Lifetime,
    MemoryLink,
    MemoryTier,
    Revision,
    SearchOptions,
    SearchResult,
    StoreOptions,
)
from foldlog.scoped.reader import ScopedReader
from foldlog.scoped.scope import Scope
from foldlog.scoped.store import Expect, ScopedStore
from foldlog.scoped.vectors import Embedder

__all__ = [
    "ContentKind",
    "Effect",
    "Embedder",
    "EmbedderFailed",
    "Expect",
    "Lifetime",
    "MemoryLink",
    "MemoryTier",
    "OfflineEmbedder",
    "Revision",
    "Scope",
    "ScopedReader",
    "ScopedStore",
    "SearchFailed",
    "SearchOptions",
    "SearchResult",
    "StoreOptions",
    "VersionConflict",
]
