"""What a degrading store has counted, and what waits in its spool, at once: `health` tells both."""

from __future__ import annotations

from collections import Counter

import foldlog
from foldlog.store.core import core_of
from foldlog.store.spool import SpoolHealth


def failures_of(store: foldlog.Store) -> Counter[str]:
    """Return the calls that failed or were spooled without an error to their caller, by method."""
    return core_of(store).calls.failures


def spool_of(store: foldlog.Store) -> SpoolHealth:
    """Return what waits for the log on the local disk."""
    outbox = core_of(store).backend.outbox
    assert outbox is not None
    return outbox.health
