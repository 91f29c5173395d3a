"""Snapshots beside the log: bytes that spare reading it again, and that may be lost at any time.

A snapshot has a head, number 0, and any number of parts from 1 on; what is put under a number
replaces what was there. There may be several of one subject beside each other, in *editions*, each
known by a name; that of most has the name "". What they hold, and whether it can be trusted, is for
`foldlog.views` to say (ADR 0006).
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from typing import Final, Protocol

from foldlog.subjects import Subject

MAX_BYTES: Final = 8 * 1024 * 1024
"""Bytes a part may hold in memory, as on the embedded server."""


Slot = int | str
"""A number with its edition, as `slot` makes it."""

_APART: Final = "~"


def slot(edition: str, number: int) -> Slot:
    """Where a number of an edition stands; the edition "" adds nothing to it."""
    return f"{edition}{_APART}{number}" if edition else number


class SnapshotStore(Protocol):
    """Numbered bytes for each subject of the log, which is also what closes them."""

    @property
    def max_bytes(self) -> int:
        """How large a head or a part may be."""
        ...

    async def identity(self, subject: Subject) -> str:
        """What tells the log that holds `subject` from any other that had or will have its name.

        Raises:
            LogUnavailable: nobody answered in time.
        """
        ...

    async def get(
        self, subject: Subject, numbers: Sequence[int], edition: str = ""
    ) -> list[bytes | None]:
        """Return what is stored under each number, or None.

        Raises:
            LogUnavailable: nobody answered in time.
        """
        ...

    async def holds(self, subject: Subject) -> bool:
        """Whether anything is stored of a subject, in any edition. Errors as `get`."""
        ...

    async def put(self, subject: Subject, number: int, data: bytes, edition: str = "") -> None:
        """Store `data`.

        Raises:
            AppendFailed, ConfigurationError: refused. LogUnavailable: it may be stored or not.
        """
        ...

    async def purge(self, subject: Subject) -> None:
        """Remove the snapshots of one subject, of every edition; fine if there is none.

        Raises:
            LogUnavailable: it may still be there; purging again is safe.
        """
        ...

    async def purge_all(self, family: str | None = None) -> None:
        """Remove all snapshots, or those of one family. Errors as `purge`."""
        ...

    async def names(self, family: str, edition: str = "") -> set[str]:
        """Return the names of a family's subjects that have a head in an edition.

        For operators: its cost grows with their number. Errors as `get`.
        """
        ...


class MemorySnapshots:
    """Snapshots that last as long as the object."""

    max_bytes = MAX_BYTES

    def __init__(self) -> None:
        self.stored: dict[tuple[Subject, Slot], bytes] = {}
        self._identity = secrets.token_hex(8)

    async def identity(self, subject: Subject) -> str:
        return self._identity

    async def get(
        self, subject: Subject, numbers: Sequence[int], edition: str = ""
    ) -> list[bytes | None]:
        await asyncio.sleep(0)  # as on a server, nothing happens without giving way
        return [self.stored.get((subject, slot(edition, number))) for number in numbers]

    async def holds(self, subject: Subject) -> bool:
        await asyncio.sleep(0)
        return any(key[0] == subject for key in self.stored)

    async def put(self, subject: Subject, number: int, data: bytes, edition: str = "") -> None:
        await asyncio.sleep(0)
        self.stored[subject, slot(edition, number)] = data

    async def purge(self, subject: Subject) -> None:
        await asyncio.sleep(0)
        self._remove({key for key in self.stored if key[0] == subject})

    async def purge_all(self, family: str | None = None) -> None:
        await asyncio.sleep(0)
        self._remove({key for key in self.stored if family in (None, key[0].family)})

    async def names(self, family: str, edition: str = "") -> set[str]:
        await asyncio.sleep(0)
        head = slot(edition, 0)
        return {s.name for s, stored in self.stored if s.family == family and stored == head}

    def _remove(self, keys: set[tuple[Subject, Slot]]) -> None:
        for key in keys:
            del self.stored[key]
