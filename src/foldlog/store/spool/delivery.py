"""From the spool to the log: each envelope once, also of what may be on the log already.

The folds would drop a repeated id; but a view that loads the last record alone must not find a
repetition there. So what may be there is looked for by its id, and appended only if its subject
still ends where that look ended: an earlier attempt that the server gets round to meanwhile makes
the append fail, and is found by the next look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from foldlog.envelope import Draft
from foldlog.errors import AppendConflict, ConfigurationError, LogCorrupt, PayloadTooLarge
from foldlog.log.port import Append, Log
from foldlog.store.failures import log_failure
from foldlog.store.spool.frames import Entry
from foldlog.subjects import Subject

OnStored = Callable[[Sequence[Append], Sequence[int]], None]
"""Hears of appends that the log has taken from the spool, and at which sequences."""

_StoreAppends = Callable[[Sequence[Append], bool], Awaitable[None]]

_POISON: Final = (PayloadTooLarge, ConfigurationError)
"""What the log says to an append that it will never take."""

_CONTENTION_PAUSE: Final = 0.002
"""Seconds to let the write that a server saw in flight settle before looking again."""


class Delivery:
    """Appends entries of the spool to a log."""

    def __init__(self, log: Log) -> None:
        self.on_stored: OnStored = lambda appends, seqs: None
        self._log = log

    async def deliver(self, entries: Sequence[Entry]) -> int:
        """Append entries that go together; return how many envelopes the log will never take.

        Those are told in the log. An atomic entry comes alone.

        Raises:
            LogUnavailable, AppendUnknown, AppendFailed: the log does not take them now. Some may be
                there.
        """
        sure, doubtful = _by_subject(entries, self._log)
        refused = await self._deliver(sure, self._store, atomic=entries[0].atomic)
        if entries[0].atomic:
            return refused + await self._deliver(doubtful, self._store_once, atomic=True)
        for append in doubtful:
            refused += await self._deliver([append], self._store_once, atomic=False)
        return refused

    async def _deliver(
        self, appends: Sequence[Append], store: _StoreAppends, *, atomic: bool
    ) -> int:
        if not appends:
            return 0
        try:
            await store(appends, atomic)
        except _POISON as refusal:
            parts = [Append(a.subject, (draft,)) for a in appends for draft in a.drafts]
            if atomic or len(parts) == 1:
                method = "atomic" if atomic else "append"
                log_failure("statestore_spool_refused", method, None, refusal)
                return len(parts)
            # Envelope by envelope: most of them are not what is refused.
            return sum([await self._deliver([part], store, atomic=False) for part in parts])
        return 0

    async def _store(self, appends: Sequence[Append], atomic: bool) -> None:
        self.on_stored(appends, await self._log.append(appends, atomic=atomic))

    async def _store_once(self, appends: Sequence[Append], atomic: bool) -> None:
        """Append what is not on the log yet, on the condition that nothing was added meanwhile."""
        while True:
            missing = [found for append in appends if (found := await self._missing(append))]
            if not missing:
                return
            try:
                await self._store(missing, True)
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
