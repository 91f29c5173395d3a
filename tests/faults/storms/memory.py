"""Memory, tasks and subscriptions go back to where they were."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from pathlib import Path

import foldlog
from tests.faults.checker import Violation
from tests.faults.proxy import Proxy
from tests.faults.storms.figures import Figures
from tests.faults.storms.patience import answered
from tests.support.build import update
from tests.support.server import LocalServer

_AT_ONCE = 20
_HOT_BYTES = 2 * 1024 * 1024
_ALLOWED = 1.05


async def memory_kept(directory: Path, operations: int, cuts: int) -> Figures:
    """Make so many calls, with so many reconnects among them; compare before and after.

    What may grow with the log is bounded: few views may stay hot.
    """
    figures = Figures("memory after operations with forced reconnects")
    async with (
        LocalServer(directory) as server,
        Proxy(server.url) as proxy,
        foldlog.connect(proxy.url, max_hot_bytes=_HOT_BYTES) as store,
    ):
        done = 0

        async def call(number: int) -> None:
            nonlocal done
            session = f"session-{number // 20}"
            match number % 4:
                case 0:
                    await store.save_update(update(f"{number}", session))
                case 1:
                    await store.list_updates(session)
                case 2:
                    await store.save_memory_state(f"key-{number % 100}", {"n": number})
                case _:
                    await store.load_memory_state(f"key-{number % 100}", consistency="strong")
            done += 1

        async def calls(first: int, count: int, every: int) -> None:
            for start in range(first, first + count, _AT_ONCE):
                group = [call(number) for number in range(start, start + _AT_ONCE)]
                calling = asyncio.gather(*group, return_exceptions=True)
                if start % every < _AT_ONCE:
                    await asyncio.sleep(0)
                    proxy.cut()
                    figures.counts["reconnects"] += 1
                for ended in await calling:
                    if isinstance(ended, Exception):
                        figures.counts[f"calls ended by {type(ended).__name__}"] += 1

        every = max(operations // cuts, _AT_ONCE)
        await calls(0, operations // 4, every)  # until everything has its size
        await answered(lambda: store.load_memory_state("key-0", consistency="strong"))
        before, tasks = resident(), len(asyncio.all_tasks())
        await calls(operations // 4, operations, every)
        await answered(lambda: store.load_memory_state("key-0", consistency="strong"))
        after = resident()
        figures.counts["operations"] = done
        figures.counts["KiB before"], figures.counts["KiB after"] = before, after
        if after > before * _ALLOWED:
            figures.broken.append(Violation("memory", f"{before} KiB became {after}"))
        if len(asyncio.all_tasks()) > tasks:
            figures.broken.append(Violation("memory", f"{len(asyncio.all_tasks())} tasks"))
    return figures


def resident() -> int:
    """This process's resident memory in KiB, without what only waits to be given back."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024
