"""The core of a store: its primitives, and one capability a module."""

from foldlog.store.erasure import Erased
from foldlog.store.health import ArchiveHealth, EmbeddedHealth, Health, SpoolHealth, StreamHealth
from foldlog.store.rebuild import Finding, RebuildProgress, RebuildReport, VerifyReport
from foldlog.store.records import LogRecord
from foldlog.store.redaction import Saving
from foldlog.store.store import BaseStore
from foldlog.views.comparison import Difference, Side

__all__ = [
    "ArchiveHealth",
    "BaseStore",
    "Difference",
    "EmbeddedHealth",
    "Erased",
    "Finding",
    "Health",
    "LogRecord",
    "RebuildProgress",
    "RebuildReport",
    "Saving",
    "Side",
    "SpoolHealth",
    "StreamHealth",
    "VerifyReport",
]
