"""The Store and its capabilities."""

from foldlog.store.health import EmbeddedHealth, Health, SpoolHealth, StreamHealth
from foldlog.store.opening import Connecting, connect, memory_store
from foldlog.store.rebuild import RebuildProgress, RebuildReport
from foldlog.store.standby import Standby
from foldlog.store.store import Store

__all__ = [
    "Connecting",
    "EmbeddedHealth",
    "Health",
    "RebuildProgress",
    "RebuildReport",
    "SpoolHealth",
    "Standby",
    "Store",
    "StreamHealth",
    "connect",
    "memory_store",
]
