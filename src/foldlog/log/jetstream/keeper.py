"""Keeping the mark of one shard up to date: behind what is appended, and before each purge."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from foldlog.errors import AppendFailed, ConfigurationError, FoldlogError, LogUnavailable
from foldlog.log import incarnation
from foldlog.log.incarnation import Loss, Mark, Shard
from foldlog.log.jetstream.marks import StreamMarks

MARK_SECONDS: Final = 10.0
"""How far a mark may lag behind what this process appends."""

ATTEMPTS: Final = 10
"""How often a mark that another process has just replaced is read again."""

_log: Final = logging.getLogger("foldlog")

Look = Callable[[], Awaitable[tuple[Loss | None, Mark, int, Shard]]]
"""Returns what a shard lost, its mark with the mark's revision, and what its leader says of it."""


class MarkKeeper:
    """Renews the mark of one shard. Its task lives while this process appends, or until `close`.

    Args:
        clock: Unix seconds.
    """

    def __init__(self, marks: StreamMarks, look: Look, clock: Callable[[], float]) -> None:
        self._marks = marks
        self._look = look
        self._clock = clock
        self._announcing = asyncio.Lock()
        self._quiet_until = 0.0
        self._renewal: asyncio.Task[None] | None = None
        self._has_grown = False

    def note_growth(self) -> None:
        """Note that a record of this process was acked; the mark is renewed in time."""
        if not self._has_grown:
            self._has_grown = True
            if self._renewal is None or self._renewal.done():
                self._renewal = asyncio.create_task(self._renew_behind(), name="foldlog-mark")

    async def announce_purge(self) -> None:
        """Make the mark say that records may go; it proves no gap until it is renewed.

        Raises:
            LogUnavailable: that is not known. Nothing may be purged.
        """
        async with self._announcing:
            # One announcement covers the purges of the time in which nobody counts.
            if self._quiet_until - self._clock() < incarnation.QUIET_SECONDS / 2:
                await self._announce()

    async def _announce(self) -> None:
        try:
            for _ in range(ATTEMPTS):
                mark, revision = await self._marks.get()
                mark = incarnation.purged(mark, self._clock())
                if await self._marks.put(mark, revision):
                    self._quiet_until = mark.quiet_until
                    return
        except (AppendFailed, ConfigurationError) as error:
            # Perhaps there is no space left, which a purge makes.
            _log.info("a purge goes without a mark: %s", error)
        await self._marks.drop()  # better no mark than a wrong one

    async def close(self) -> None:
        """Renew the mark if this process has appended since. Idempotent."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])
            self._renewal = None
            await self._renew()

    async def _renew_behind(self) -> None:
        while self._has_grown:
            await asyncio.sleep(MARK_SECONDS)
            await self._renew()

    async def _renew(self) -> None:
        """Renew the mark; where that is not possible the earlier one stays."""
        if not self._has_grown:
            return
        self._has_grown = False
        try:
            loss, mark, revision, found = await self._look()
            renewed = incarnation.renewed(mark, found, self._clock())
            if loss is None and renewed != mark:  # else the evidence stays
                await self.replace(renewed, revision)
        except LogUnavailable as error:
            _log.info("the mark of a shard was not renewed: %s", error)
        except asyncio.CancelledError:
            self._has_grown = True
            raise

    async def replace(self, mark: Mark, revision: int) -> bool:
        """Replace the mark of that revision; return whether it was. The log works without, too."""
        try:
            return await self._marks.put(mark, revision)
        except FoldlogError as error:
            _log.info("the mark of a shard was not replaced: %s", error)
            return False
