"""Projectors in a process of their own: projects.py URL NAMESPACE DATABASE. Says ["ready"]."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import foldlog
from foldlog.projectors import projecting
from tests.projectors.filling import ALL


async def main(path: str, namespace: str, to: str) -> None:
    projecting._LEASE = 0.5
    async with foldlog.connect(path=path, namespace=namespace) as store:
        running = foldlog.Projecting(store, ALL, to=to)
        os.write(1, (json.dumps(["ready"]) + "\n").encode())
        await running.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
