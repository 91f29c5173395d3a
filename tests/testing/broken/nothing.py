"""The store that does nothing, and says that all is well."""

from __future__ import annotations

from tests.testing.plain_artifacts import PlainArtifacts
from tests.testing.plain_store import Data, PlainStore


class _Nowhere:
    """Works on data that nobody sees again."""

    @property
    def data(self) -> Data:
        return Data()

    @data.setter
    def data(self, given: Data) -> None:
        """What it is to keep its data in is left alone."""


class _NoArtifacts(_Nowhere, PlainArtifacts):
    """References to nothing."""


class RemembersNothing(_Nowhere, PlainStore):
    """Takes all that is saved, and keeps nothing of it."""

    Artifacts = _NoArtifacts
