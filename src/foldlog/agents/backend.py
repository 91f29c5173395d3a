"""What a state manager needs below it. Memory and the log are two such backends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import NamedTuple, Protocol

from foldlog.store.redaction import Redaction
from foldlog.views import Consistency
from foldlog_projections.agentshares import Shared
from foldlog_projections.agentstates import Change, Entry


class Loaded(NamedTuple):
    """A scope as of `version`, 0 for one that has no state. The entries never change."""

    version: int
    entries: Mapping[str, Entry]


class Write(NamedTuple):
    """Changes of one scope, if it still stands at `expected`. `is_first`: it holds nothing yet."""

    scope: str
    expected: int
    changes: Sequence[Change]
    is_first: bool


class Commit(NamedTuple):
    """A turn as it was stored: its keys with what they held before it, and after it."""

    version: int
    ts: float
    label: str
    keys: Mapping[str, tuple[Entry | None, Entry | None]]


class Backend(Protocol):
    """Scopes, their versions and their shares."""

    @property
    def redaction(self) -> Redaction:
        """What states and labels pass before they are compared with what is there."""
        ...

    async def load(self, scope: str, consistency: Consistency) -> Loaded:
        """Return a scope as of now.

        Raises:
            LogUnavailable, LogCorrupt: it could not be read.
        """
        ...

    async def commit(
        self, writes: Sequence[Write], shares: Sequence[tuple[str, Shared]], label: str
    ) -> dict[str, int]:
        """Store all of it at once, and return the version of each scope from then on.

        `shares` are digests of tokens with what they open.

        Raises:
            AppendConflict: a scope does not stand where it was expected to. Nothing was stored.
            PayloadTooLarge, AppendFailed, LogUnavailable: nothing was stored.
            AppendUnknown: it may have been.
        """
        ...

    async def opened_by(self, digest: str) -> Shared | None:
        """Return what a token opens as of now; None if it is unknown, revoked or has expired."""
        ...

    async def revoke(self, digest: str) -> None:
        """Have a token open nothing from now on. Errors as `commit`."""
        ...

    async def moment(self) -> int:
        """Return the version of a moment: turns are stored at or before it, or after, as wholes.

        Raises:
            LogUnavailable: the log could not be asked.
        """
        ...

    async def scopes(self) -> list[str]:
        """Return the scopes that have had state, in the order in which they came to have it."""
        ...

    def commits(self, scope: str) -> AsyncGenerator[Commit]:
        """Yield the turns of a scope so far, in order. Whoever does not need all closes it."""
        ...

    def watch(self, scope: str, since: int | None) -> AsyncGenerator[Commit]:
        """Yield the turns after a version, then each new one, without end. None: the new ones."""
        ...
