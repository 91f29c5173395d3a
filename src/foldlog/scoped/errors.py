"""What scoped state raises beside `foldlog.errors`. All of them are FoldlogErrors."""

from __future__ import annotations

from foldlog.errors import AppendFailed, FoldlogError


class VersionConflict(AppendFailed):
    """Not committed: the key is not at the version that was expected.

    `expected` and `actual` are versions, None for no such key.
    """

    def __init__(self, key: str, expected: str | None, actual: str | None) -> None:
        super().__init__(f"key {key!r:.80} was expected {_told(expected)}, and is {_found(actual)}")
        self.key = key
        self.expected = expected
        self.actual = actual


class EmbedderFailed(FoldlogError):
    """The embedder raised, or gave something else than a vector of numbers for each text."""


class SearchFailed(FoldlogError):
    """A scope's index cannot be kept on this machine: the disk is full, for instance."""


def _told(version: str | None) -> str:
    return "not to be there" if version is None else f"at version {version}"


def _found(version: str | None) -> str:
    return "not there" if version is None else f"at version {version}"
