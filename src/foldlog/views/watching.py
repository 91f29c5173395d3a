"""Watching views: what comes next of one, for as long as somebody asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from foldlog.envelope import Recorded
from foldlog.errors import LogUnavailable, NotFound, StoreClosed
from foldlog.kind import Kind
from foldlog.subjects import Subject
from foldlog.views import views as views_module
from foldlog.views.hydration import Choose
from foldlog.views.view import View
from foldlog.views.views import Views
from foldlog_projections.fold import Folded
from foldlog_projections.items import PAGE, Items

_AHEAD: Final = 8 * PAGE
"""Envelopes that a watcher who catches up has loaded at once."""

_log: Final = logging.getLogger("foldlog")


async def watch(
    views: Views, projection: Kind[Items], subject: Subject, after: str | None
) -> AsyncGenerator[Recorded]:
    """Yield the envelopes of `subject` in log order, then each new one, without end.

    A watcher that does not read costs its subscription: its view may be evicted as any other, and
    is loaded again when the watcher comes back.

    Starts after the envelope `after`, or at the beginning if that is None. An outage of the log is
    waited out; what was stored meanwhile follows. NotFound: there is no such envelope.
    """
    seen: dict[str, int] | None = None
    last = -1
    cleared_at = 0

    def following(folded: Folded[Items]) -> range:
        nonlocal seen, last, cleared_at
        if seen is None and after is not None and after not in folded.seen:
            raise NotFound("record", after, f"{subject.family} has had none of that id")
        if folded.seen is not seen:  # the first look, or it was cleared, or loaded anew
            goes_on = seen is None or folded.cleared_at == cleared_at
            last = folded.seen.get(after or "", -1) if goes_on else -1
            seen, cleared_at = folded.seen, folded.cleared_at
        return range(last + 1, min(last + 1 + _AHEAD, len(folded.state)))

    async with watched(views, projection, subject) as wake:
        must_look = True
        while True:
            view, found = await _next(views, projection, subject, wake, following, must_look)
            for envelope in found:
                if view.folded.seen is not seen or not views.holds(view):
                    break
                last += 1
                after = envelope.id
                yield envelope
            if not (found or views.live):
                return
            must_look = not found and not await woken(wake)


async def advances(
    views: Views, projection: Kind[Any], *subjects: Subject, must_look: bool = True
) -> AsyncGenerator[int]:
    """Yield how far the folds of subjects have come, as a sum: now, and whenever that is further.

    An outage of the log is waited out. `must_look`: the first time, the log is asked in any case.
    """
    async with watched(views, projection, *subjects) as wake:
        reached = -1
        while True:
            applied = 0
            for subject in subjects:
                view, _ = await _next(views, projection, subject, wake, None, must_look)
                applied += view.applied
            has_moved = applied != reached
            if has_moved:
                reached = applied
                yield reached
            if not (has_moved or views.live):
                return
            must_look = not has_moved and not await woken(wake)


@asynccontextmanager
async def watched(
    views: Views, projection: Kind[Any], *subjects: Subject
) -> AsyncIterator[asyncio.Event]:
    """Watch subjects: the event is set whenever there may be more of one."""
    views.check()
    wake = asyncio.Event()
    watchers = [views.view(projection, each).watchers for each in subjects]
    for each in watchers:
        each.append(wake)
    try:
        yield wake
    finally:
        for each in watchers:
            each.remove(wake)
        for subject in subjects:
            await views.abandon(views.view(projection, subject))


async def _next(
    views: Views,
    projection: Kind[Any],
    subject: Subject,
    wake: asyncio.Event,
    choose: Choose | None,
    must_look: bool,
) -> tuple[View[Any], list[Recorded]]:
    """The view, current, and what `choose` wants of it, however long the log is away."""
    while not views.closed:
        views.check()
        view = views.view(projection, subject)
        try:
            if must_look or not view.is_hydrated or not views.is_current(view):
                await views.refresh(view, "strong" if must_look else "session")
            return view, [] if choose is None else await views.take(view, choose)
        except LogUnavailable as error:
            _log.info("watching %s: %s; waiting for the log", subject.name, error)
            await woken(wake)
            must_look = True
    raise StoreClosed


async def woken(wake: asyncio.Event) -> bool:
    """Wait to be woken; False if that did not happen while pushes are trusted."""
    try:
        async with asyncio.timeout(views_module.TRUST_SECONDS):
            await wake.wait()
    except TimeoutError:
        return False
    wake.clear()
    return True
