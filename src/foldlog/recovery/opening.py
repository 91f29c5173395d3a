"""How a store comes by its state recovery."""

from __future__ import annotations

from foldlog.recovery.artifacts import ArtifactBackend
from foldlog.recovery.backend import StateBackend
from foldlog.recovery.questions import Questions
from foldlog.store.blobs import BlobStore
from foldlog.store.ownership import Ownership


def recovery(store: Ownership, blobs: BlobStore) -> StateBackend:
    """Return the StateBackend over a store's log and blobs."""
    return StateBackend(store, ArtifactBackend(store, blobs))


def questions(store: Ownership) -> Questions:
    """Return what the executions of a store ask."""
    return Questions(store)
