"""From the spool to the log.

What may be there already is appended all the same: folds drop an id that they have applied, and an
older save of the same writer.

What was drafted by a writer who had not seen the log up to the last clearing of its subject, or of
its session, belongs to what was cleared: it is not appended at all. Clocks of several machines
cannot tell that; sequences can (`Draft.known`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Final, NamedTuple

from foldlog.envelope import CLEARED, draft
from foldlog.errors import AppendFailed, ConfigurationError, LogCorrupt, PayloadTooLarge
from foldlog.log.port import Append, Log
from foldlog.store.belonging import MARKER, OF_SESSION
from foldlog.store.failures import log_failure
from foldlog.store.spool.errors import ClearedMeanwhile
from foldlog.store.spool.frames import Entry, Waiting
from foldlog.subjects import Subject

OnStored = Callable[[Sequence[Append], Sequence[int]], None]
"""Hears of appends that the log has taken from the spool, and at which sequences."""

FOR_EVER: Final = (PayloadTooLarge, ConfigurationError)
"""What the log says to an append that it will never take."""

_UNDER_SESSION: Final = {kind.name for kind in OF_SESSION}
"""Families whose first key is a session's."""

_PROBE: Final = "probe"
"""A family without a view: what is appended only to see whether the log takes anything."""


class Refusal(NamedTuple):
    """What the log does not take, though it takes others, and why."""

    entry: Entry
    reason: str


class Delivery:
    """Appends entries of the spool to a log."""

    def __init__(self, log: Log) -> None:
        self.on_stored: OnStored = lambda appends, seqs: None
        self._log = log

    async def deliver(self, entries: Sequence[Entry]) -> int:
        """Append entries that go as one; return how many envelopes were cleared meanwhile.

        Each such subject is one line in the program's log. An atomic entry comes alone: it is
        dropped as a whole, so that no half of it comes back.

        Raises:
            LogUnavailable, AppendUnknown: the log does not take them now. Some may be there.
            AppendFailed, PayloadTooLarge, ConfigurationError: it refuses one of them; see `sift`.
        """
        cleared: dict[Subject, int] = {}
        appends = [await self._uncleared(w, cleared) for entry in entries for w in entry.waiting]
        atomic, envelopes = entries[0].atomic, sum(entry.envelopes for entry in entries)
        appended = sum(len(append.drafts) for append in appends)
        if atomic and appended < envelopes:
            return envelopes
        appends = [append for append in appends if append.drafts]
        if appends:
            self.on_stored(appends, await self._log.append(appends, atomic=atomic))
        return envelopes - appended

    async def sift(self, entries: Sequence[Entry]) -> tuple[int, list[Refusal]]:
        """Append entries one by one, for the log refuses some of them; return those, too.

        An entry of many envelopes is taken apart where it is refused.

        Raises:
            AppendFailed: it takes nothing at all, so that it is not those that are at fault.
            LogUnavailable, AppendUnknown: as `deliver`.
        """
        dropped, refused = 0, list[Refusal]()
        for entry in entries:
            try:
                dropped += await self.deliver([entry])
            except (AppendFailed, *FOR_EVER) as refusal:
                if not entry.atomic and entry.envelopes > 1:
                    of_parts = await self.sift(entry.parts())
                    dropped += of_parts[0]
                    refused += of_parts[1]
                    continue
                if isinstance(refusal, AppendFailed):
                    await self._probe(entry.waiting[0].subject(self._log.namespace).shard)
                refused.append(Refusal(entry, str(refusal)))
        return dropped, refused

    async def _probe(self, shard: int) -> None:
        """Append something of no meaning. Raises AppendFailed if the shard takes nothing now."""
        keys = (self._log.namespace.subject(_PROBE, f"{number}") for number in itertools.count())
        subject = next(subject for subject in keys if subject.shard == shard)
        await self._log.append([Append(subject, (draft(_PROBE, b"\xc0", id="probe"),))])

    async def _uncleared(self, waiting: Waiting, cleared: dict[Subject, int]) -> Append:
        """What is to be appended, without what was cleared before its writer had seen that.

        `cleared`: where subjects were cleared, as far as that was looked up already.
        """
        subject, drafts = waiting.subject(self._log.namespace), waiting.drafts
        if not any(draft.known for draft in drafts):
            return Append(subject, drafts)  # their writer had seen nothing: nobody can tell
        if subject not in cleared:
            cleared[subject] = await self._cleared_at(subject)
        at = cleared[subject]
        current = tuple(draft for draft in drafts if not 0 < draft.known < at)
        if len(current) < len(drafts):
            error = ClearedMeanwhile(subject.name, at)
            log_failure("statestore_spool_refused", "append", None, error)
        return Append(subject, current)

    async def _cleared_at(self, subject: Subject) -> int:
        """The sequence at which a subject, or its session, was cleared last; 0 if never."""
        found = 0
        if subject.family in _UNDER_SESSION:
            marker = await self._log.last(self._log.namespace.subject(MARKER, subject.keys[0]))
            found = 0 if marker is None else marker.seq
        try:
            async with aclosing(self._log.read(subject)) as pages:
                async for records in pages:
                    first = records[0]
                    return max(found, first.seq if first.envelopes[0].type == CLEARED else 0)
        except LogCorrupt:
            pass  # no reader gets any further than that: nothing comes back
        return found
