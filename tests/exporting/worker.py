"""A process that exports or restores, and is killed at the n-th call of something: see `main`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import foldlog
from foldlog.exporting import export, restore, restoring, writing
from foldlog.exporting.newfile import NewFile
from foldlog.log.blobs import Blobs
from foldlog.log.jetstream.log import JetStreamLog
from foldlog.store import copying

PLACES: dict[str, tuple[type, str]] = {
    "write": (NewFile, "write"),
    "finish": (NewFile, "finish"),
    "restore": (JetStreamLog, "restore"),
    "blob": (Blobs, "put"),
    "purge": (JetStreamLog, "purge"),
}


def small_steps(setattr_: Callable[..., Any] = setattr) -> None:
    """Have a small log take many steps."""
    setattr_(writing, "_RECORDS", 5)
    setattr_(restoring, "_RECORDS", 11)
    setattr_(copying, "_MESSAGES", 7)


def die_at(place: str, number: int, *, after: bool) -> None:
    """Kill this process before or after the n-th call."""
    owner, name = PLACES[place]
    method, calls = getattr(owner, name), 0

    def count() -> None:
        nonlocal calls
        calls += 1

    def die() -> None:
        if calls == number:
            os.kill(os.getpid(), signal.SIGKILL)

    def call(self: Any, *args: Any, **options: Any) -> Any:
        count()
        if not after:
            die()
        found = method(self, *args, **options)
        if after and not asyncio.iscoroutine(found):
            die()
        return ended(found) if asyncio.iscoroutine(found) else found

    async def ended(coroutine: Any) -> Any:
        found = await coroutine
        if after:
            die()
        return found

    setattr(owner, name, call)


async def main(action: str, path: str, namespace: str, file: str, place: str, number: str) -> None:
    small_steps()
    die_at(place.strip("+"), int(number), after=place.endswith("+"))
    async with foldlog.connect(path=path, namespace=namespace, shards=2) as store:
        await (export if action == "export" else restore)(store, Path(file))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
