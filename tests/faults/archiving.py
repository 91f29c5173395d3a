"""A process that archives, merges and erases, and is killed as it takes its nth step. A script.

Run as `archiving.py URL NAMESPACE ARCHIVE NTH PLANTED`. A step is what changes a file or a name on
the disk, or the log's manifests, or removes from the log. `PLANTED` is "" or a mistake of PLANTED.
Where NTH is "ever", it goes on for ever: it saves, archives and erases.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# Run as a script, so that it costs one interpreter and no pytest.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import foldlog
from foldlog.log.archive import ArchivedLog, archiver
from foldlog.log.archive.manifests import Manifests
from foldlog.log.archive.places import Directory
from foldlog.opening.connecting import Connecting
from tests.support.build import update

LIMITS = foldlog.ArchiveLimits(hot_bytes=0, segment_bytes=4_000, largest=1_000_000)
ERASED = "s1"
LATE = "late"
GONE = "gone-"
_DISK = ("mkdir", "rename", "unlink", "rmdir")


def hasten() -> None:
    """Have archivers of this process take over at once, merge often, and purge soon.

    A purge waits for who has looked at where a subject ends, and appends there.
    """
    archiver.LEASE, archiver.FAN = 0.0, 2  # type: ignore[misc]
    Manifests.believed = 0.2


def opened(url: str, namespace: str, archive: Path) -> Connecting:
    """A store with such an archive."""
    return foldlog.connect(url, namespace=namespace, archive=archive, archive_limits=LIMITS)


class Steps:
    """Counts steps, and kills this process at the nth."""

    def __init__(self, nth: int) -> None:
        self.nth, self.taken = nth, 0

    def step(self, last_deed: Callable[[], object] = lambda: None) -> None:
        self.taken += 1
        if self.taken == self.nth:
            last_deed()
            os.kill(os.getpid(), signal.SIGKILL)

    def on_disk(self) -> None:
        """Take a step before each change of names, and two at a sync: the content may be half."""
        for name in _DISK:
            setattr(os, name, self._before(getattr(os, name)))
        sync = os.fsync

        def fsync(fd: int) -> None:
            if stat.S_ISREG((found := os.fstat(fd)).st_mode):
                path = os.readlink(f"/proc/self/fd/{fd}")
                self.step(lambda: os.truncate(path, found.st_size // 2))
            self.step()
            sync(fd)

        os.fsync = fsync

    def on_log(self, log: Any) -> None:
        """Take a step before a manifest and a purge, and one when it is on its way."""
        append, purge = log.append, log.purge

        async def appended(appends: Any, **options: Any) -> Any:
            if ".archive." in appends[0].subject.name:
                return await self._sent(append(appends, **options))
            return await append(appends, **options)

        async def purged(*args: Any, **options: Any) -> Any:
            return await self._sent(purge(*args, **options))

        log.append, log.purge = appended, purged

    async def _sent(self, call: Any) -> Any:
        self.step()
        sending = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        self.step()
        return await sending

    def _before(self, call: Any) -> Any:
        def stepped(*args: Any, **options: Any) -> Any:
            self.step()
            return call(*args, **options)

        return stepped


def _purged_first() -> None:
    change = Manifests.change

    async def changed(self: Any, shard: int, known: Any, says: Any) -> Any:
        await self._log.purge(shard, before=says.until + 1)
        return await change(self, shard, known, says)

    Manifests.change = changed  # type: ignore[method-assign]


def _named_first() -> None:
    put, change, kept = Directory.put, Manifests.change, list[Any]()

    def later(self: Directory, name: str, draft: Path) -> None:
        kept.append((self, name, draft.read_bytes()))

    async def changed(self: Any, *args: Any) -> Any:
        made = await change(self, *args)
        while kept:
            place, name, content = kept.pop()
            draft = place.draft(name.rpartition("/")[0], ".late") / "file"
            draft.write_bytes(content)
            put(place, name, draft)
        return made

    Directory.put, Manifests.change = later, changed  # type: ignore[method-assign]


PLANTED = {
    "purged first": _purged_first,
    "named first": _named_first,
}


def _say(what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def _stepwise(store: foldlog.Store, nth: int, planted: str) -> None:
    assert isinstance(store._core.log, ArchivedLog)
    if planted:
        PLANTED[planted]()
    steps = Steps(nth)
    steps.on_log(store._core.log.below)
    steps.on_disk()
    await store.archive(everything=True)
    await store.save_update(update(LATE, "s0"))
    _say("saved")
    await store.archive(everything=True)  # and merge
    _say("archived")
    await store.erase_session(ERASED)
    _say("erased")
    steps.nth = 0
    _say(steps.taken)


async def _for_ever(store: foldlog.Store) -> None:
    while True:
        name = f"{GONE}{secrets.token_hex(4)}"
        await store.save_update(update("u", name))
        await store.archive(everything=True)
        await store.erase_session(name)
        _say(name)


async def _main(url: str, namespace: str, archive: str, nth: str, planted: str) -> None:
    hasten()
    async with opened(url, namespace, Path(archive)) as store:
        if nth == "ever":
            await _for_ever(store)
        await _stepwise(store, int(nth), planted)


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
