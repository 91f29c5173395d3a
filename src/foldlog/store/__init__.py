"""The Store and its capabilities."""

from foldlog.store.erasure import Erased
from foldlog.store.health import EmbeddedHealth, Health, SpoolHealth, StreamHealth
from foldlog.store.opening import Connecting, connect, memory_store
from foldlog.store.past import Past
from foldlog.store.rebuild import RebuildProgress, RebuildReport
from foldlog.store.redaction import Saving
from foldlog.store.standby import Standby
from foldlog.store.store import Store
from foldlog.store.verify import Finding, VerifyReport
from foldlog.views.comparison import Difference, Side

__all__ = [
    "Connecting",
    "Difference",
    "EmbeddedHealth",
    "Erased",
    "Finding",
    "Health",
    "Past",
    "RebuildProgress",
    "RebuildReport",
    "Saving",
    "Side",
    "SpoolHealth",
    "Standby",
    "Store",
    "StreamHealth",
    "VerifyReport",
    "connect",
    "memory_store",
]
