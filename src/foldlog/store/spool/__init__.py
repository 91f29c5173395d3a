"""The spool of a degrading store: what the log cannot take now waits on the disk, in order."""

from foldlog.store.spool.file import Drafts as Drafts
from foldlog.store.spool.outbox import Outbox as Outbox, Spooled as Spooled
from foldlog.store.spool.place import (
    DEFAULT_SPOOL_BYTES as DEFAULT_SPOOL_BYTES,
    SPOOL_VARIABLE as SPOOL_VARIABLE,
    Place as Place,
)
from foldlog.store.spool.spool import Spool as Spool, SpoolHealth as SpoolHealth
