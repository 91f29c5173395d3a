"""From the spool to the log: each envelope once, also of what may be on the log already.

The folds would drop a repeated id; but a view that loads the last record alone must not find a
repetition there. So what may be there is looked for by its id, and appended only if its subject
still ends where that look ended: an earlier attempt that the server gets round to meanwhile makes
the append fail, and is found by the next look.

What a subject's clearing has overtaken is not appended at all: see `foldlog.store.spool.knowledge`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

import msgspec

from foldlog.envelope import CLEARED, Draft, draft
from foldlog.errors import (
    AppendConflict,
    AppendFailed,
    ConfigurationError,
    LogCorrupt,
    PayloadTooLarge,
)
from foldlog.log.port import Append, Log
from foldlog.store.belonging import MARKER, OF_SESSION
from foldlog.store.failures import log_failure
from foldlog.store.spool.errors import GenerationOver
from foldlog.store.spool.frames import Entry, Waiting
from foldlog.store.spool.latest import Latest
from foldlog.subjects import Subject

OnStored = Callable[[Sequence[Append], Sequence[int]], None]
"""Hears of appends that the log has taken from the spool, and at which sequences."""

_POISON: Final = (PayloadTooLarge, ConfigurationError)
"""What the log says to an append that it will never take."""

_UNDER_SESSION: Final = {kind.name for kind in OF_SESSION}
"""Families whose first key is a session's."""

_PROBE: Final = "probe"
"""A family without a view: what is appended only to see whether the log takes anything."""

_CONTENTION_PAUSE: Final = 0.002
"""Seconds to let the write that a server saw in flight settle before looking again."""


class Refusal(NamedTuple):
    """What the log does not take, though it takes others, and why."""

    entry: Entry
    reason: str


class Delivery:
    """Appends entries of the spool to a log."""

    def __init__(self, log: Log, latest: Latest) -> None:
        self.on_stored: OnStored = lambda appends, seqs: None
        self._log = log
        self._latest = latest

    async def deliver(self, entries: Sequence[Entry]) -> int:
        """Append entries that go together; return how many envelopes are of before a clearing.

        Those are told in the log. An atomic entry comes alone.

        Raises:
            LogUnavailable, AppendUnknown: the log does not take them now. Some may be there.
            AppendFailed, PayloadTooLarge, ConfigurationError: it refuses one of them; see `sift`.
        """
        entries, over = await self._of_this_generation(entries)
        if not entries:
            return over
        sure, doubtful = _by_subject(entries, self._log)
        if sure:
            seqs = await self._latest.append(sure, atomic=entries[0].atomic)
            self.on_stored(sure, seqs)
        if entries[0].atomic:
            await self._store_once(doubtful)
        else:
            for append in doubtful:
                await self._store_once([append])
        return over

    async def sift(self, entries: Sequence[Entry]) -> tuple[int, list[Refusal]]:
        """Append entries of which the log refuses some, one by one; return those it refuses, too.

        In order, envelope by envelope where that is needed, and looking for what may be there.

        Raises:
            AppendFailed: it takes nothing at all, so that it is not those that are at fault.
            LogUnavailable, AppendUnknown: as `deliver`.
        """
        over, refused = 0, list[Refusal]()
        shards: dict[int, bool] = {}  # whether each is known to take something
        waiting = deque(msgspec.structs.replace(entry, doubtful=True) for entry in entries)
        while waiting:
            entry = waiting.popleft()
            shard = entry.appends(self._log.namespace)[0].subject.shard
            try:
                over += await self.deliver([entry])
                shards[shard] = True
            except (AppendFailed, *_POISON) as refusal:
                if not entry.atomic and entry.envelopes > 1:
                    waiting.extendleft(reversed(entry.parts()))
                    continue
                refused.append(Refusal(entry, str(refusal)))
                if isinstance(refusal, AppendFailed):
                    shards.setdefault(shard, False)
        for shard in (shard for shard, takes in shards.items() if not takes):
            await self._probe(shard)
        return over, refused

    async def _probe(self, shard: int) -> None:
        """Append something of no meaning. Raises AppendFailed if the shard takes nothing now."""
        keys = (self._log.namespace.subject(_PROBE, f"{number}") for number in itertools.count())
        subject = next(subject for subject in keys if subject.shard == shard)
        await self._log.append([Append(subject, (draft(_PROBE, b"\xc0", id="probe"),))])

    async def _of_this_generation(self, entries: Sequence[Entry]) -> tuple[list[Entry], int]:
        """Leave out what was saved before its subject was cleared; say how many envelopes that is.

        An atomic entry goes as a whole, so that no half of it comes back.
        """
        begins: dict[Subject, int] = {}
        kept, refused = list[Entry](), 0
        for entry in entries:
            over = [w for w in entry.waiting if await self._is_over(w, begins)]
            if over and entry.atomic:
                refused += entry.envelopes
                continue
            refused += sum(len(waiting.drafts) for waiting in over)
            left = tuple(waiting for waiting in entry.waiting if waiting not in over)
            if left:
                kept.append(Entry(entry.atomic, entry.doubtful, left))
        return kept, refused

    async def _is_over(self, waiting: Waiting, begins: dict[Subject, int]) -> bool:
        if waiting.known is None:
            return False
        subject = self._log.namespace.subject(waiting.family, *waiting.keys)
        if subject not in begins:
            begins[subject] = await self._cleared_at(subject)
            if waiting.family in _UNDER_SESSION:
                of_session = self._log.namespace.subject(MARKER, waiting.keys[0])
                begins[subject] = max(begins[subject], await self._ends_at(of_session))
        if begins[subject] <= waiting.known:
            return False
        over = GenerationOver(subject.name, waiting.known, begins[subject])
        log_failure("statestore_spool_refused", "append", None, over)
        return True

    async def _cleared_at(self, subject: Subject) -> int:
        """The sequence of the clearing with which a subject begins; 0 if with none."""
        try:
            async with aclosing(self._log.read(subject)) as pages:
                async for records in pages:
                    first = records[0]
                    return first.seq if first.envelopes[0].type == CLEARED else 0
        except LogCorrupt:
            return 0  # no reader gets any further than that: nothing comes back
        return 0

    async def _ends_at(self, subject: Subject) -> int:
        record = await self._log.last(subject)
        return record.seq if record is not None else 0

    async def _store_once(self, appends: Sequence[Append]) -> None:
        """Append what is not on the log yet, on the condition that nothing was added meanwhile."""
        while True:
            missing = [found for append in appends if (found := await self._missing(append))]
            if not missing:
                return
            try:
                self.on_stored(missing, await self._log.append(missing, atomic=True))
            except AppendConflict as conflict:
                if conflict.actual is None:
                    await asyncio.sleep(_CONTENTION_PAUSE)
            else:
                return

    async def _missing(self, append: Append) -> Append | None:
        ids, head = set[str](), 0
        try:
            async for page in self._log.read(append.subject):
                for record in page:
                    ids.update(envelope.id for envelope in record.envelopes)
                    head = record.seq
        except LogCorrupt:
            # No reader gets any further than that. Once it is mended, the fold drops a repetition.
            return Append(append.subject, append.drafts)
        drafts = tuple(draft for draft in append.drafts if draft.id not in ids)
        return Append(append.subject, drafts, head) if drafts else None


def _by_subject(entries: Iterable[Entry], log: Log) -> tuple[list[Append], list[Append]]:
    """One append a subject: those of which nothing is on the log, and those that may be there."""
    drafts = dict[Subject, list[Draft]]()
    doubted = set[Subject]()
    for entry in entries:
        for append in entry.appends(log.namespace):
            drafts.setdefault(append.subject, []).extend(append.drafts)
            if entry.doubtful:
                doubted.add(append.subject)
    appends = [Append(subject, tuple(found)) for subject, found in drafts.items()]
    return (
        [append for append in appends if append.subject not in doubted],
        [append for append in appends if append.subject in doubted],
    )
