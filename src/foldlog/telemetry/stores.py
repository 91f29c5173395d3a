"""What of a store is looked at."""

from __future__ import annotations

from foldlog.errors import LogUnavailable
from foldlog.log.jetstream import JetStreamLog
from foldlog.log.relay import Relay
from foldlog.opening import Store
from foldlog.store.core import core_of


def jetstream(store: Store) -> JetStreamLog | None:
    """The log of a store on a server, below whatever stands before it.

    None in memory, and where the store has not reached its log yet.
    """
    log: object = core_of(store).log
    try:
        while isinstance(log, Relay):
            log = log.below
    except LogUnavailable:
        return None
    return log if isinstance(log, JetStreamLog) else None
