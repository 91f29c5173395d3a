"""The core of a store: its primitives, and one capability a module."""

from foldlog.log.archive import ArchiveHealth as ArchiveHealth
from foldlog.log.port import StreamInfo
from foldlog.store.erasure import Erased as Erased
from foldlog.store.health import EmbeddedHealth as EmbeddedHealth, Health as Health
from foldlog.store.rebuild import (
    Finding as Finding,
    RebuildProgress as RebuildProgress,
    RebuildReport as RebuildReport,
    VerifyReport as VerifyReport,
)
from foldlog.store.records import LogRecord as LogRecord
from foldlog.store.redaction import Saving as Saving
from foldlog.store.spool import SpoolHealth as SpoolHealth
from foldlog.store.store import BaseStore as BaseStore
from foldlog.views.comparison import Side as Side, ViewDifference as ViewDifference

StreamHealth = StreamInfo
