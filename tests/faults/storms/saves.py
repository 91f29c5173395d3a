"""One effect per id, however many save it, and however often they have to try."""

from __future__ import annotations

import asyncio
import functools
import random
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import foldlog
from tests.faults.checker import Violation
from tests.faults.proxy import Proxy
from tests.faults.storms.figures import Figures
from tests.faults.storms.patience import answered
from tests.support.build import update
from tests.support.server import LocalServer

_STORES = 4
_SESSIONS = 20
_AT_ONCE = 64
_EVERY = 2000
"""Saves between two cuts of every connection."""


async def contended_saves(directory: Path, saves: int, seed: int = 1) -> Figures:
    """Save each id from four stores at once, through connections that are cut again and again."""
    figures = Figures("contended and retried saves")
    async with (
        LocalServer(directory) as server,
        Proxy(server.url) as proxy,
        AsyncExitStack() as open_,
    ):
        stores = [
            await open_.enter_async_context(foldlog.connect(proxy.url)) for _ in range(_STORES)
        ]
        ids = [f"id-{number}" for number in range(saves // _STORES)]
        counts, retried = Counter[str](), Counter[str]()

        async def save(store: foldlog.Store, id: str) -> None:
            item = update(id, f"session-{sum(id.encode()) % _SESSIONS}")
            while True:
                try:
                    await store.save_update(item)
                except (foldlog.AppendUnknown, foldlog.LogUnavailable) as error:
                    retried[type(error).__name__] += 1
                    continue
                counts["saves acked"] += 1
                if counts["saves acked"] % _EVERY == 0:
                    counts["cuts"] += 1
                    proxy.cut()
                if counts["saves acked"] % 10 == 0:  # and again, though it was acked
                    await answered(lambda: store.save_update(item))
                    counts["saves repeated after their ack"] += 1
                return

        async def caller(store: foldlog.Store, mine: list[str]) -> None:
            for id in mine:
                await save(store, id)

        rng = random.Random(seed)
        callers = []
        for store in stores:
            # Much the same order in each store, so that they meet at the same ids.
            order = sorted(ids, key=lambda id: int(id[3:]) + rng.random() * 200)
            callers += [caller(store, order[first::_AT_ONCE]) for first in range(_AT_ONCE)]
        await asyncio.gather(*callers)
        figures.counts = counts + Counter({f"{n} retried": c for n, c in retried.items()})
        found = Counter[str]()
        for session in range(_SESSIONS):
            read = functools.partial(
                stores[0].list_updates, f"session-{session}", limit=saves, consistency="strong"
            )
            listed = await answered(read)
            found.update(item.update_id for item in listed)
        figures.counts["ids"] = len(found)
        figures.counts["effects"] = found.total()
        for id in ids:
            if found[id] != 1:
                kind = "doubled" if found[id] else "lost"
                figures.broken.append(Violation(kind, f"{id} has {found[id]} effects"))
    return figures
