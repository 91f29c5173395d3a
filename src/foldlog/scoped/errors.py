"""What scoped state raises beside `foldlog.errors`. All of them are FoldlogErrors."""

from __future__ import annotations

from foldlog.errors import AppendConflict, AppendFailed, FoldlogError


class VersionConflict(AppendConflict):
    """Not committed: the key is not at the version that was expected.

    `expected` and `actual` are versions, None for no such key.
    """

    key: str

    expected: str | None  # type: ignore[assignment]  # the version is what its caller knows
    actual: str | None  # type: ignore[assignment]

    def __init__(self, key: str, expected: str | None, actual: str | None) -> None:
        said = f"key {key!r:.80} was expected {_told(expected)}, and is {_found(actual)}"
        AppendFailed.__init__(self, said)
        self.subject = self.key = key
        self.expected, self.actual = expected, actual


class EmbedderFailed(FoldlogError):
    """The embedder raised, or gave something else than a vector of numbers for each text."""


class SearchFailed(FoldlogError):
    """A scope's index cannot be stored on this machine: the disk is full, for instance."""


def _told(version: str | None) -> str:
    return "not to be there" if version is None else f"at version {version}"


def _found(version: str | None) -> str:
    return "not there" if version is None else f"at version {version}"
