"""How a store comes by its state recovery."""

from __future__ import annotations

from foldlog.recovery.artifacts import ArtifactBackend
from foldlog.recovery.backend import StateBackend
from foldlog.recovery.ledger import Ledger
from foldlog.store.contents import Contents
from foldlog.store.primitives import Primitives


def recovery(journal: Primitives, contents: Contents) -> StateBackend:
    """Return the StateBackend over a store's log and contents."""
    ledger = Ledger(journal)
    return StateBackend(ledger, ArtifactBackend(ledger, contents))
