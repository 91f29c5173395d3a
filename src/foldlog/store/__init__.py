"""The Store and its capabilities."""

from foldlog.store.health import EmbeddedHealth, Health, StreamHealth
from foldlog.store.opening import Connecting, connect, memory_store
from foldlog.store.rebuild import RebuildProgress, RebuildReport
from foldlog.store.store import Store

__all__ = [
    "Connecting",
    "EmbeddedHealth",
    "Health",
    "RebuildProgress",
    "RebuildReport",
    "Store",
    "StreamHealth",
    "connect",
    "memory_store",
]
