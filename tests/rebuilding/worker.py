"""A process that rebuilds and says how far it is: `worker.py PATH NAMESPACE`."""

from __future__ import annotations

import asyncio
import sys

import foldlog


async def main(path: str, namespace: str) -> None:
    async with foldlog.connect(path=path, namespace=namespace) as store:

        def on_progress(progress: foldlog.RebuildProgress) -> None:
            sys.stdout.write(f"{progress.done}\n")
            sys.stdout.flush()
            if progress.done:
                sys.stdin.readline()  # until somebody allows the next step, or kills this process

        await store.rebuild("updates", on_progress=on_progress)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
