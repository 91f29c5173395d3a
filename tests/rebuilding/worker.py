"""A process that rebuilds and says how far it is: `worker.py PATH NAMESPACE`."""

from __future__ import annotations

import asyncio
import sys

import foldlog
from foldlog.store.rebuild import Rebuild
from foldlog.store.refolds import RebuildProgress


async def main(path: str, namespace: str) -> None:
    async with foldlog.connect(path=path, namespace=namespace) as store:

        def on_progress(progress: RebuildProgress) -> None:
            sys.stdout.write(f"{progress.done}\n")
            sys.stdout.flush()
            if progress.done:
                sys.stdin.readline()  # until somebody allows the next step, or kills this process

        await Rebuild(store, recorded_every=1).rebuild("updates", on_progress=on_progress)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
