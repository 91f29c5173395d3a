"""The lease of a process on its runs: it says that it lives, and others look whether it does."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from foldlog.errors import FoldlogError, StoreClosed
from foldlog.store.core import core_of
from foldlog.store.operation import outside
from foldlog.store.store import BaseStore
from foldlog_projections.runs import processes
from foldlog_projections.runs.processes import Left, Lives
from foldlog_projections.runs.queues import Added

_log: Final = logging.getLogger("foldlog")

_RENEWALS: Final = 5
"""How often a lease is renewed before it would end."""

_LONGEST_LOOK: Final = 1.0
"""Seconds between two looks at an owner, at most, in which it could have renewed its lease."""


class Here(NamedTuple):
    """A worker's word that it does a run which is being started beside it, if the queue agrees.

    `tenure` is to open the run. `started` is to say whether that is stored; False, too, if nobody
    knows: then its starter settles it.
    """

    tenure: str
    started: asyncio.Future[bool]

    async def stored(self) -> bool:
        """What `started` says, once it does. Its starter says so, whatever becomes of this call."""
        return await asyncio.shield(self.started)


class Process:
    """One store of this process as the owner of runs. It has a lease while it has one.

    Attributes:
        id: the key under which it says that it lives.
        begin_here: asks its worker to do a run at once; None: it has no worker.
    """

    def __init__(self, store: BaseStore) -> None:
        self.id: Final = secrets.token_hex(8)
        self.begin_here: Callable[[Added], Here | None] | None = None
        self._store = store
        self._leases: list[float] = []
        self._holding = asyncio.Lock()
        self._number = 0
        self._said = 0.0
        self._changed = asyncio.Event()
        self._renewing: asyncio.Task[None] | None = None
        self._owed: set[asyncio.Task[None]] = set()
        core_of(store).on_close(self.close)

    async def hold(self, lease: float) -> None:
        """Have a run, for which the lease is `lease` seconds; the first one is on record then."""
        async with self._holding:  # nobody has a run on a lease that another one is about to say
            is_known = bool(self._leases) and lease >= min(self._leases)
            self._leases.append(lease)
            try:
                if not is_known:
                    await self._say()
            except BaseException:
                self._leases.remove(lease)
                raise
        if self._renewing is None:
            task = asyncio.create_task(self._renew(), name="foldlog lease", context=outside())
            self._renewing = task
        self._changed.set()

    def let_go(self, lease: float) -> None:
        """Have one run less."""
        self._leases.remove(lease)
        self._changed.set()

    def owe(self, release: Callable[[], Awaitable[None]]) -> None:
        """Let go of a run as soon as the log takes that: its owner lives, and has left it."""
        task = asyncio.create_task(self._pay(release), name="foldlog release", context=outside())
        self._owed.add(task)
        task.add_done_callback(self._owed.discard)

    async def _pay(self, release: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await release()
            except StoreClosed:
                return None  # nobody is held up: the lease has ended, too
            except FoldlogError as error:
                _log.warning("a run was not let go, and will be: %s", error)
                await asyncio.sleep(_LONGEST_LOOK)

    async def close(self) -> None:
        """Say that it has no runs any more, if it has said that it lives."""
        if self._renewing is None:
            return
        ending = [self._renewing, *self._owed]
        for each in ending:
            each.cancel()
        await asyncio.wait(ending)
        try:
            await self._store.append(processes.kind(self.id), Left())
        except FoldlogError as error:
            _log.info("the end of the lease is not on record, and comes by itself: %s", error)

    async def _say(self) -> None:
        self._number, self._said = self._number + 1, asyncio.get_running_loop().time()
        lives = Lives(min(self._leases), self._number, host(), os.getpid(), place(), started())
        await self._store.append(processes.kind(self.id), lives)

    async def _renew(self) -> None:
        while True:
            self._changed.clear()
            pause = None
            if self._leases:  # however many runs begin and end meanwhile
                due = self._said + min(self._leases) / _RENEWALS
                pause = max(due - asyncio.get_running_loop().time(), 0.0)
            try:
                async with asyncio.timeout(pause):
                    await self._changed.wait()
                continue
            except TimeoutError:
                pass
            try:
                if self._leases:
                    await self._say()
            except StoreClosed:
                return
            except FoldlogError as error:
                _log.warning("the lease on runs was not renewed: %s", error)


_processes: Final[WeakKeyDictionary[BaseStore, Process]] = WeakKeyDictionary()


def process_of(store: BaseStore) -> Process:
    """A store as the owner of runs: one for all that it opens."""
    found = _processes.get(store)
    if found is None:
        found = _processes[store] = Process(store)
    return found


class Look:
    """Watches whether the owner of a run lives: by its place's kernel, else by its renewals."""

    def __init__(self, store: BaseStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._seen: tuple[str, int] = ("", 0)
        self._looked = self._silent = 0.0

    async def is_gone(self, process: str) -> bool:
        """Whether the process has ended, or has not renewed its lease since the lease was long."""
        lives: Lives | None = await self._store.view(processes.kind(process), consistency="strong")
        if lives is None:
            return True
        if lives.place and lives.place == place() and lives.started != started(lives.pid):
            return True
        now = self._clock()
        if self._seen != (process, lives.number):
            self._seen, self._silent = (process, lives.number), 0.0
        else:  # while the log was away, and nobody looked, the owner could not renew either
            self._silent += min(now - self._looked, _LONGEST_LOOK)
        self._looked = now
        return self._silent >= lives.lease


def host() -> str:
    """The name of this machine."""
    return socket.gethostname()


def place() -> str:
    """This kernel, since its start, and the process ids that this process sees; "" if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def started(pid: int | None = None) -> str:
    """When a process of this place was started, in the kernel's ticks; "" if there is none."""
    try:
        stat = Path(f"/proc/{os.getpid() if pid is None else pid}/stat").read_text("utf-8")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in ("Z", "X") else fields[19]
