"""The side store: the last bytes put under each subject, beside the log: snapshots and blobs."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from collections.abc import Collection, Sequence
from typing import Protocol

from foldlog.log.port import Stored


class Side(Protocol):
    """Bytes by subject. The log that it belongs to closes it.

    Every method raises LogUnavailable if nobody answers. Filters are subjects in which `*` stands
    for one token, and `>` for all that follow.
    """

    @property
    def name(self) -> str:
        """Its name, for messages."""

    @property
    def max_bytes(self) -> int:
        """How many bytes a subject may hold."""

    async def put(self, messages: Sequence[tuple[str, bytes]], *, ttl: int | None = None) -> bool:
        """Store each message whose subject holds nothing; return whether that was all of them.

        The caller bounds what is under way at once. To replace a message, purge it first.
        `ttl`: the seconds after which it may be removed; None for never.

        Raises:
            AppendFailed, ConfigurationError: refused. LogUnavailable: some may be stored.
        """

    async def get(
        self, subjects: Sequence[str], *, patience: float | None = None
    ) -> list[bytes | None]:
        """Return what some replica has under each subject, or None: `last` decides.

        `patience`: seconds, for what the caller can do without. If nobody answers in that time,
        the next calls raise LogUnavailable at once.
        """

    async def last(self, subject: str) -> Stored | None:
        """Return what the leader has under a subject, or None."""

    async def subjects(self, matching: str) -> Collection[str]:
        """Return the subjects that match a filter and hold something. For operators."""

    async def purge(self, matching: str, *, overwrite: bool = True) -> None:
        """Remove what matches a filter, as `Log.purge` does; fine if nothing does."""


class MemorySide:
    """A side store that lasts as long as the object. Nothing expires."""

    name = "memory"
    max_bytes = 8 * 1024 * 1024  # as on the embedded server

    def __init__(self) -> None:
        self.stored: dict[str, Stored] = {}

    async def put(self, messages: Sequence[tuple[str, bytes]], *, ttl: int | None = None) -> bool:
        await asyncio.sleep(0)  # a server is never reached without giving way
        now = dt.datetime.now(dt.UTC).isoformat()
        made = [Stored(subject, 0, now, data) for subject, data in messages]
        stored = [self.stored.setdefault(each.subject, each) is each for each in made]
        return all(stored)

    async def get(
        self, subjects: Sequence[str], *, patience: float | None = None
    ) -> list[bytes | None]:
        await asyncio.sleep(0)
        found = map(self.stored.get, subjects)
        return [None if each is None else each.data for each in found]

    async def last(self, subject: str) -> Stored | None:
        await asyncio.sleep(0)
        return self.stored.get(subject)

    async def subjects(self, matching: str) -> list[str]:
        await asyncio.sleep(0)
        pattern = re.escape(matching).replace(r"\*", "[^.]+").replace(">", ".+")
        return [subject for subject in self.stored if re.fullmatch(pattern, subject)]

    async def purge(self, matching: str, *, overwrite: bool = True) -> None:
        for subject in await self.subjects(matching):
            del self.stored[subject]
