"""A log in memory that can be away, and a degrading store with a spool over it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

import foldlog
from foldlog.envelope import Recorded
from foldlog.kind import Kind
from foldlog.log.memory import MemoryLog
from foldlog.log.port import Append, Record
from foldlog.store.core import Backend
from foldlog.store.options import Options
from foldlog.store.spool import DEFAULT_SPOOL_BYTES, Outbox, Place, Spool
from foldlog.subjects import Namespace, Subject
from foldlog_projections.registry import KINDS

State = Literal["up", "away", "ack lost", "not stored"]


class FlakyLog(MemoryLog):
    """A memory log that is away when told so.

    "ack lost": an append is stored, and its outcome unknown. "not stored": unknown, and it is not.
    """

    def __init__(self, namespace: Namespace | None = None) -> None:
        super().__init__(namespace)
        self.state: State = "up"
        self.before_append: Callable[[], None] = lambda: None
        self.unsettled: list[Append] = []
        self.refused: set[str] = set()  # ids that no append may have
        self.rewound: foldlog.LogRewound | None = None
        self.gate: asyncio.Event | None = None
        self.calls: list[tuple[bool, int]] = []  # whether it was atomic, and of how many subjects
        self._called = asyncio.Event()
        self._notify: list[Callable[[], None]] = []

    async def append(self, appends: Sequence[Append], *, atomic: bool = False) -> list[int]:
        self.calls.append((atomic, len(appends)))
        self._called.set()
        self.before_append()
        state = self.state  # as it is when the append is sent
        if self.gate is not None:
            await self.gate.wait()
        if self.rewound is not None:
            raise self.rewound
        if state == "away":
            await asyncio.sleep(0)
            raise foldlog.LogUnavailable("the log is away")
        if state == "not stored":
            self.unsettled += appends
            raise _unknown(appends)
        if any(draft.id in self.refused for append in appends for draft in append.drafts):
            raise foldlog.AppendFailed("no room for that")
        seqs = await super().append(appends, atomic=atomic)
        if state == "ack lost":
            raise _unknown(appends)
        return seqs

    async def read(
        self, subject: Subject, *, after: int = 0, strong: bool = True
    ) -> AsyncGenerator[list[Record]]:
        self._check()
        async for page in super().read(subject, after=after, strong=strong):
            yield page

    async def last(
        self, subject: Subject, *, strong: bool = True, upto: int | None = None
    ) -> Record | None:
        self._check()
        return await super().last(subject, strong=strong, upto=upto)

    def on_epoch(self, notify: Callable[[], None]) -> None:
        self._notify.append(notify)

    def back(self) -> None:
        """Be up again, and say so."""
        self.state = "up"
        for notify in self._notify:
            notify()

    async def called(self) -> None:
        """Until something was sent here, whatever becomes of it."""
        await self._called.wait()

    def get_round_to_it(self) -> None:
        """Store at last what was sent and neither stored nor refused."""
        while self.unsettled:
            append = self.unsettled.pop(0)
            if append.expect in (None, self._end(append.subject)):
                self._store(append.subject, append.drafts)

    async def on_it(self, family: str, *keys: str) -> list[Recorded]:
        """All that a subject holds, repetitions included."""
        subject = self.namespace.subject(family, *keys)
        pages = [page async for page in super().read(subject)]
        return [e for page in pages for record in page for e in record.envelopes]

    async def ids(self, family: str = "updates", *keys: str) -> list[str]:
        """The ids that a subject holds, as a fold takes them: each where it stands first."""
        found = await self.on_it(family, *(keys or ("session",)))
        return list(dict.fromkeys(e.id for e in found))

    def _check(self) -> None:
        if self.state != "up":
            raise foldlog.LogUnavailable("the log is away")


def _unknown(appends: Sequence[Append]) -> foldlog.AppendUnknown:
    return foldlog.AppendUnknown([d.id for a in appends for d in a.drafts], "no ack came")


class Spooling:
    """A degrading store over a flaky log, as one process has it."""

    def __init__(
        self, log: FlakyLog, place: Place, limit: int, kinds: Sequence[Kind[Any]] = ()
    ) -> None:
        self.log = log
        self.outbox = Outbox(log, Spool(place, limit), (*KINDS, *kinds))
        options = Options(on_error="degrade", kinds=kinds)
        self.store = foldlog.Store(Backend(log, log.blobs, outbox=self.outbox), options)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Envelopes waiting, spooled, drained, dropped."""
        health = self.outbox.health
        return health.waiting, health.spooled, health.drained, health.dropped

    async def drained(self) -> None:
        """Bring the log back, and wait until nothing waits for it."""
        self.log.back()
        await self.outbox.settle()


def place(tmp_path: Path, prefix: str = "default.log") -> Place:
    return Place(tmp_path / "spool", prefix)


@asynccontextmanager
async def spooling(
    tmp_path: Path,
    log: FlakyLog | None = None,
    *,
    limit: int = DEFAULT_SPOOL_BYTES,
    kinds: Sequence[Kind[Any]] = (),
    **options: Any,
) -> AsyncGenerator[Spooling]:
    """A process that degrades: it takes over what is in the spool, and lets go of it in the end."""
    process = Spooling(log or FlakyLog(), place(tmp_path, **options), limit, kinds)
    await process.outbox.recover()
    async with process.store:
        yield process


def files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "spool").glob("*"))


async def crashed(
    tmp_path: Path, log: FlakyLog, save: Callable[[foldlog.Store], Any], **options: Any
) -> None:
    """A process that spools and ends without letting go of anything."""
    async with spooling(tmp_path, log, **options) as process:
        log.state = "away"
        await save(process.store)
        left = {path: path.read_bytes() for path in files(tmp_path)}
    for path, content in left.items():
        path.write_bytes(content)


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[Any, ...]]:
    """The structured lines: level, event, method, trace and exception."""
    fields = ("event", "method", "trace_id", "exception")
    return [
        (record.levelno, *(record.__dict__[field] for field in fields))
        for record in caplog.records
        if hasattr(record, "event")
    ]
