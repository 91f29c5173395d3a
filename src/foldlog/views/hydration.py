"""How a view gets what it lacks: from the log, and where that is long, from its snapshot."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from foldlog.envelope import CLEARED, Position, Recorded
from foldlog.errors import LogCorrupt, LogRewound
from foldlog.log.port import Log
from foldlog.upcasting import UPCASTERS
from foldlog.views.fold import holds
from foldlog.views.latest import read_latest
from foldlog.views.snapshots import Snapshots
from foldlog.views.view import View
from foldlog_projections.fold import Folded
from foldlog_projections.items import PAGE, Items

_log: Final = logging.getLogger("foldlog.snapshots")

Choose = Callable[[Folded[Items]], Sequence[int]]
"""Says which ordinals of a sequence are wanted, ascending, from its indexes alone."""


class Hydration:
    """Reads the log for views, one reader a view at a time. Holds no resources of its own."""

    def __init__(
        self,
        log: Log,
        snapshots: Snapshots | None,
        make_room: Callable[[View[Any]], Awaitable[None]],
    ) -> None:
        self._log = log
        self._snapshots = snapshots
        self._make_room = make_room

    async def look(self, view: View[Any], *, strong: bool = True) -> None:
        """Read the log from where the view stands to the head, as of now."""
        heard, at, epoch = view.known_head, time.monotonic(), self._log.epoch
        # The log checks that it lost nothing. That it was restored, and has grown since past all
        # that this process knew of, only the last envelope shows. A replica that lags does not.
        unproven = view.last if epoch != view.checked_epoch else None
        if epoch != view.checked_epoch:
            view.forget_pushes()
        if view.projection.latest_only:
            await self._read_latest(view, strong)
        elif view.applied:
            await self._read_on(view, unproven if strong else None, strong)
        else:
            await self._read_cold(view, strong)
        view.checked(at, epoch if strong or unproven is None else view.checked_epoch)
        if strong and view.applied < heard == view.known_head:
            # It was purged after we had heard of it: the log's head is the truth.
            view.known_head = view.applied

    async def restore(self, view: View[Any], strong: bool = True) -> bool:
        """Read on from the view's snapshot; False if it has none that is ahead of it.

        Raises:
            LogRewound: the log does not hold what the snapshot ends with.
        """
        if self._snapshots is None:
            return False
        restored = await self._snapshots.load(view.projection, view.subject)
        if restored is None:
            return False
        if restored.folded.cleared_at < view.folded.cleared_at:
            self._snapshots.discard(view.subject)
            return False
        if restored.end.seq <= view.applied:
            return False
        view.adopt(restored)
        _log.debug(
            "snapshot of %s used: %d envelopes, up to sequence %d",
            *(view.subject.name, view.folded.count, restored.end.seq),
        )
        seen = view.folded.seen
        await self._read_on(view, restored.end, strong)
        if view.folded.seen is not seen:  # it was cleared since
            self._snapshots.discard(view.subject)
        return True

    async def take(self, view: View[Items], choose: Choose) -> list[Recorded]:
        """Return the envelopes that `choose` wants, having loaded the missing pages."""
        while True:
            items = view.folded.state
            ordinals = choose(view.folded)
            missing = items.missing(ordinals)
            if not missing:
                return items.take(ordinals)
            for first, last in _runs(missing):
                if not await self._fill(view, items, first, last):
                    await self.look(view)
                    if view.folded.state is items:
                        raise LogCorrupt(
                            view.subject.name,
                            items.marks[first],
                            "what follows is not what its snapshot says; a rebuild accepts the log",
                        )
                    break

    async def _read_latest(self, view: View[Any], strong: bool) -> None:
        last = view.last  # before the await: pushes go on meanwhile
        latest = await read_latest(
            self._log, view.projection, view.subject, strong=strong, unless=view.applied
        )
        if strong and last is not None and latest.last != last and latest.head <= last.seq:
            if latest.head or not await self._went_with_others(view, last):
                raise _rewound(view, last)
            if view.last == last:
                known = view.known_head  # pushes may have come since
                view.adopt_fold(View(view.projection, view.subject))
                view.known_head = known
        view.adopt_latest(latest)

    async def _read_cold(self, view: View[Any], strong: bool) -> None:
        """Read from the beginning; where there is more than a little, look for a snapshot."""
        if view.projection.early_snapshots and await self.restore(view, strong):
            return
        looked = view.projection.early_snapshots
        async with aclosing(self._log.read(view.subject, strong=strong)) as pages:
            async for records in pages:
                view.apply(records)
                await self._make_room(view)
                if not looked and view.folded.count >= PAGE:
                    looked = True
                    if await self.restore(view, strong):
                        return

    async def _read_on(self, view: View[Any], unproven: Position | None, strong: bool) -> None:
        """Apply what follows, if the first record of the same read shows `unproven`.

        Else the subject was cleared, which shows when all of it is read.
        """
        after, is_proven = view.applied, unproven is None
        if unproven is not None:
            after = unproven.seq - 1
        async with aclosing(self._log.read(view.subject, after=after, strong=strong)) as pages:
            async for records in pages:
                is_proven = is_proven or (unproven is not None and holds(unproven, records[0]))
                if not is_proven:
                    break
                view.apply(records)
        if unproven is not None and not is_proven:
            anew = View(view.projection, view.subject)
            await self._read_on(anew, None, strong)
            # A late writer's record may stand before the clearing.
            if anew.folded.cleared_at <= unproven.seq and (
                anew.applied or not await self._went_with_others(view, unproven)
            ):
                raise _rewound(view, unproven)
            view.adopt_fold(anew)

    async def _went_with_others(self, view: View[Any], last: Position) -> bool:
        """Whether the view was cleared after `last`, with all whose first keys are the same.

        They begin with the tombstone of that clearing, which may have taken those of single views.
        """
        *first, _ = view.subject.keys
        if not first:
            return False
        branch = self._log.namespace.branch(view.subject.family, *first)
        async with aclosing(self._log.read(branch)) as pages:
            async for records in pages:
                return records[0].seq > last.seq and holds(last, records[0])
        return False

    async def _fill(self, view: View[Items], items: Items, first: int, last: int) -> bool:
        """Load the pages from `first` to `last`; False if the log does not have them."""
        seen = view.folded.seen
        number, page = first, list[Recorded]()
        after = items.marks[first] - 1
        async with aclosing(self._log.read(view.subject, after=after)) as pages:
            async for records in pages:
                for record in records:
                    for envelope in record.envelopes:
                        if envelope.type == CLEARED:
                            page.clear()  # what comes before it in its record is not meant
                        # What is not the next was there before, or stands on the page before.
                        if seen.get(envelope.id) != number * PAGE + len(page):
                            continue
                        page.append(_brought_up(view, envelope))
                        if len(page) == PAGE:
                            if view.folded.state is not items:
                                return False
                            view.fill(number, page)
                            if number == last:
                                return True
                            number, page = number + 1, []
        return False


def _brought_up(view: View[Any], envelope: Recorded) -> Recorded:
    try:
        return UPCASTERS.bring_up(envelope)
    except msgspec.MsgspecError as error:
        raise LogCorrupt(view.subject.name, envelope.seq, str(error)) from error


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending numbers as runs without a gap, first and last of each."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _rewound(view: View[Any], last: Position) -> LogRewound:
    return LogRewound(view.subject.name, last.seq, f"{last.id!r:.80} was read there")
