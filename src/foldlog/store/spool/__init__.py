"""The spool of a degrading store: what the log cannot take now waits on the disk, in order."""

from foldlog.store.spool.outbox import Outbox, Spooled
from foldlog.store.spool.place import DEFAULT_SPOOL_BYTES, SPOOL_VARIABLE, Place
from foldlog.store.spool.segment import Drafts
from foldlog.store.spool.spool import Spool, SpoolHealth

__all__ = [
    "DEFAULT_SPOOL_BYTES",
    "SPOOL_VARIABLE",
    "Drafts",
    "Outbox",
    "Place",
    "Spool",
    "SpoolHealth",
    "Spooled",
]
