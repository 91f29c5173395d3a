"""Waiting for pushes: what another store has saved comes some time after that store's ack."""

from __future__ import annotations

import asyncio

import foldlog
from foldlog.store.core import core_of
from foldlog.views.view import View

PATIENCE = 20.0


async def all_is_pushed(*stores: foldlog.Store) -> None:
    """Return when these stores have heard of all that the log has of what they hold in memory.

    Their reads of it are then as good as strong ones. What they do not hold is not read.

    Raises:
        TimeoutError: a push has not come.
    """
    async with asyncio.timeout(PATIENCE):
        for store in stores:
            core = core_of(store)
            for view in core.hot_views._hot:
                if view.unfollow is not None:
                    last = await core.forked_log.last(view.subject)
                    await _heard(view, last.seq if last is not None else 0)


async def _heard(view: View[object], seq: int) -> None:
    moved = asyncio.Event()
    view.watchers.append(moved)
    try:
        while view.known_head < seq:
            await moved.wait()
            moved.clear()
    finally:
        view.watchers.remove(moved)
