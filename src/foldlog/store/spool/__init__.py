"""The spool of a degrading store: what the log cannot take now waits on the local disk, in order.

`place` is where the files are, `segment` one file, `spool` all that waits, `outbox` the way of an
append to the log or into the spool, and from there to the log (decision 7).
"""

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
