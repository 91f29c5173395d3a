"""What scoped state raises beside `foldlog.errors`. All of them are FoldlogErrors."""

from __future__ import annotations

from foldlog.errors import FoldlogError, VersionConflict as VersionConflict


class EmbedderFailed(FoldlogError):
    """The embedder raised, or gave something else than a vector of numbers for each text."""


class SearchFailed(FoldlogError):
    """A scope's index cannot be stored on this machine: the disk is full, for instance."""
