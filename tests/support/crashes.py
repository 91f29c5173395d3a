"""A spool that is used once, and recovered after each crash that could have happened meanwhile.

What is done to the disk and to the log, and what the caller was told, is one sequence of events.
After every prefix of it a process may be killed or the power fail; another process then takes over
what the disk has left, with the log as it was by then. It must find all that was told to be kept.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from foldlog.envelope import Draft, draft
from foldlog.errors import FoldlogError, LogUnavailable
from foldlog.log.port import Append
from foldlog.store.spool import Outbox, Place, Spool, Spooled
from foldlog.store.spool.file import REFUSED, SUFFIX
from foldlog.subjects import Subject
from foldlog_projections.registry import KINDS
from tests.support.disk import Change, Disk, Image, Wrote, read_image, watching, write_image
from tests.support.flaky import FlakyLog

PREFIX = "default.log"


class Begun(NamedTuple):
    """A caller wants envelopes appended."""

    ids: tuple[str, ...]


class Told(NamedTuple):
    """A caller was told that they are kept: on the log, or in the spool."""

    ids: tuple[str, ...]


class Stored(NamedTuple):
    """The log has taken appends that came as one."""

    appends: tuple[Append, ...]


Event = Change | Begun | Told | Stored


class Crash(NamedTuple):
    """What is left: of the events those before `after`, of the disk `image`."""

    after: int
    how: str
    image: Image


class Fault(NamedTuple):
    """What is wrong after a crash."""

    what: str
    ids: tuple[str, ...]
    crash: Crash | None = None


class RecordedLog(FlakyLog):
    """A log that notes what it takes."""

    def __init__(self, events: list[Event]) -> None:
        super().__init__()
        self._events = events
        self._taken: list[Append] = []

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        try:
            return await super().append(appends, atomic=atomic)
        finally:  # also where its ack is lost
            if self._taken:
                self._events.append(Stored(tuple(self._taken)))
                self._taken.clear()

    def _store(self, subject: Subject, drafts: Sequence[Draft]) -> int:
        self._taken.append(Append(subject, tuple(drafts)))
        return super()._store(subject, drafts)


class Run:
    """A process with a spool below `root`, whose events are noted."""

    def __init__(self, root: Path, *, limit: int) -> None:
        self.events: list[Event] = []
        self.log = RecordedLog(self.events)
        self.limit = limit
        self.outbox = Outbox(self.log, Spool(_place(root), limit), KINDS)

    def subject(self, family: str, key: str) -> Subject:
        return self.log.namespace.subject(family, key)

    async def save(self, *saved: tuple[str, str, str], atomic: bool = False) -> None:
        """Save envelopes by family, key and id, and note what the caller is told."""
        appends = [
            Append(self.subject(family, key), (draft("test.made", b"\xc0", id=id),))
            for family, key, id in saved
        ]
        ids = tuple(id for _, _, id in saved)
        self.events.append(Begun(ids))
        try:
            await self.outbox.append(appends, atomic=atomic)
        except Spooled:
            self.events.append(Told(ids))
        except LogUnavailable:
            pass  # neither the log nor the spool has it: told to be lost
        else:
            self.events.append(Told(ids))

    async def settled(self) -> None:
        """The log is back, and has taken all that waits."""
        self.log.back()
        while self.outbox.health.waiting:
            try:
                await self.outbox.settle()
            except LogUnavailable:
                continue


Work = Callable[[Run], Awaitable[None]]


async def recorded(root: Path, work: Work, *, limit: int) -> list[Event]:
    """The events of a process that does that work, and closes its spool."""
    write_image({}, root)
    run = Run(root, limit=limit)
    with watching(root, run.events.append):
        await work(run)
        await run.outbox.close()
    disk = Disk({})
    for event in run.events:
        if not isinstance(event, Begun | Told | Stored):
            disk.apply(event)
    assert disk.killed() == read_image(root), "something was done to the disk that nobody saw"
    return run.events


def crashes(events: Sequence[Event], files: Image | None = None) -> list[Crash]:
    """Every crash that could have happened, each once: at the last moment at which it could.

    `files` were on the disk before.
    """
    disk, stored = Disk(files or {}), 0
    found: dict[tuple[int, frozenset[tuple[str, bytes]]], Crash] = {}

    def leaves(after: int, how: str, image: Image) -> None:
        found[stored, frozenset(image.items())] = Crash(after, how, image)

    for after, event in enumerate(events, 1):
        if isinstance(event, Wrote):
            leaves(after, "killed in a write", disk.torn(event))
        if isinstance(event, Stored):
            stored += 1
        elif not isinstance(event, Begun | Told):
            disk.apply(event)
        leaves(after, "killed", disk.killed())
        for how, image in disk.without_power():
            leaves(after, f"without power: {how}", image)
    return sorted(found.values(), key=lambda crash: crash.after)


def overfull(events: Sequence[Event], limit: int) -> list[Fault]:
    """Where the spool took more of the disk than it may."""
    disk = Disk({})
    for event in events:
        if isinstance(event, Begun | Told | Stored):
            continue
        disk.apply(event)
        taken = {path: len(data) for path, data in disk.killed().items() if path.endswith(SUFFIX)}
        if sum(taken.values()) > limit:
            return [Fault("more than the bound", tuple(taken))]
    return []


async def faults(
    events: Sequence[Event], root: Path, *, aside: Container[str] = ()
) -> AsyncGenerator[Fault]:
    """What is wrong after each crash, one after the other.

    `aside`: ids that the log refuses at first, so that they come behind others.
    """
    for number, crash in enumerate(crashes(events)):
        for fault in await _faults_after(crash, events[: crash.after], root / f"{number}", aside):
            yield fault


async def faults_of_recovering(
    events: Sequence[Event], crash: Crash, root: Path
) -> AsyncGenerator[Fault]:
    """What is wrong where the process that recovers from a crash crashes itself, at any moment."""
    before, more = events[: crash.after], list[Event]()
    write_image(crash.image, root)
    files = read_image(root)
    log = RecordedLog(more)
    await _replay(before, log)
    more.clear()
    with watching(root, more.append):
        await _recover(root, log)
    shutil.rmtree(root)
    for again in crashes(more, files):
        for fault in await _faults_after(again, [*before, *more[: again.after]], root):
            yield fault


async def _replay(events: Sequence[Event], log: FlakyLog) -> None:
    """Have the log hold what it had taken."""
    for event in events:
        if isinstance(event, Stored):
            await log.append(event.appends)


async def _faults_after(
    crash: Crash, events: Sequence[Event], root: Path, aside: Container[str] = ()
) -> list[Fault]:
    """What is wrong once another process has recovered from a crash, before which `events` were."""
    write_image(crash.image, root)
    log = FlakyLog()
    await _replay(events, log)
    try:
        await _recover(root, log)
        _try_refused_again(root)
        await _recover(root, log)
        left = [path for path in read_image(root) if path.endswith(SUFFIX)]
    except FoldlogError as error:
        return [Fault(f"not recovered: {error!r}", (), crash)]
    finally:
        shutil.rmtree(root)
    held = [
        await log.ids(subject.family, *subject.keys)
        for subject in await log.subjects()
        if subject.family != "probe"  # of no meaning, and of no caller
    ]
    found = [Fault("waits for ever", tuple(left))] if left else []
    return [fault._replace(crash=crash) for fault in (*found, *_judged(held, events, aside))]


def _judged(
    held: Sequence[Sequence[str]], events: Sequence[Event], aside: Container[str]
) -> Iterator[Fault]:
    """What is wrong with what subjects hold."""
    begun = [id for event in events if isinstance(event, Begun) for id in event.ids]
    told = {id for event in events if isinstance(event, Told) for id in event.ids}
    if lost := told.difference(*held):
        yield Fault("lost", tuple(sorted(lost)))
    for repeated in held:
        ids = list(dict.fromkeys(repeated))  # as every fold takes them
        if invented := [id for id in ids if id not in begun]:
            yield Fault("invented", tuple(invented))
            continue
        in_order = [id for id in ids if id not in aside]
        if in_order != sorted(in_order, key=begun.index):
            yield Fault("out of order", tuple(ids))


async def _recover(root: Path, log: FlakyLog) -> None:
    outbox = Outbox(log, Spool(_place(root), 1 << 20), KINDS)
    try:
        await outbox.recover()
        await outbox.settle()
    finally:
        await outbox.close()


def _try_refused_again(root: Path) -> None:
    """As an operator does, by another name for the file."""
    for path in (root / "spool").glob(f"*{REFUSED}"):
        path.rename(path.with_suffix(SUFFIX))


def _place(root: Path) -> Place:
    return Place(root / "spool", PREFIX)
