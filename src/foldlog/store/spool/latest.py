"""Appends to subjects of which only the last record counts.

An append whose outcome nobody learnt may be stored long after: over a connection that stood still
meanwhile, for instance, when its repetition from the spool has been there for minutes. A fold drops
the second of the two. A view that loads the last record alone would show it, older as it is than
what came after the first. So such an append goes on the condition that its subject still ends where
it did: its repetition ends it elsewhere, and the late one is refused.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import msgspec

from foldlog.envelope import Draft
from foldlog.errors import (
    AppendConflict,
    AppendFailed,
    AppendUnknown,
    LogRewound,
    LogUnavailable,
)
from foldlog.log.port import Append, Log
from foldlog.subjects import Subject
from foldlog_projections.registry import FAMILIES

_REMEMBERED: Final = 4096
"""Subjects of which it is remembered where they end; of others the log tells, when it refuses."""

_CONTENTION_PAUSE: Final = 0.002
"""Seconds to let the write that a server saw in flight settle before looking again."""


def are_latest(appends: Sequence[Append]) -> bool:
    """Whether there is one among the appends of whose subject only the last record counts."""
    return any(_is_latest(append.subject) for append in appends)


@lru_cache(16_384)
def _is_latest(subject: Subject) -> bool:
    projection = FAMILIES.get(subject.family)
    return projection is not None and projection.latest_only


class Latest:
    """Appends to a log, so that nothing of which only the last counts is stored late."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._heads: OrderedDict[str, int] = OrderedDict()

    async def append(self, appends: Sequence[Append], *, atomic: bool) -> list[int]:
        """Append as `Log.append`. Those of one subject may go as one."""
        if not are_latest(appends):
            return await self._log.append(appends, atomic=atomic)
        if atomic:
            return await self._conditionally(appends)
        parts = [[append for append in appends if not _is_latest(append.subject)]]
        parts += [[a] for a in _joined([a for a in appends if _is_latest(a.subject)])]
        ends: dict[Subject, int] = {}
        results = await asyncio.gather(
            *(self._part(part, ends) for part in parts if part), return_exceptions=True
        )
        _check(appends, results, some_stored=bool(ends))
        return [ends[append.subject] for append in appends]

    async def _part(self, part: Sequence[Append], ends: dict[Subject, int]) -> None:
        if _is_latest(part[0].subject):
            seqs = await self._conditionally(part)
        else:
            seqs = await self._log.append(part)
        ends.update(zip((append.subject for append in part), seqs, strict=True))

    async def _conditionally(self, appends: Sequence[Append]) -> list[int]:
        while True:
            guarded = [
                msgspec.structs.replace(append, expect=self._heads.get(append.subject.name, 0))
                if _is_latest(append.subject)
                else append
                for append in appends
            ]
            try:
                seqs = await self._log.append(guarded, atomic=True)
            except AppendConflict as conflict:
                await self._look(guarded, conflict)
                continue
            for append, seq in zip(guarded, seqs, strict=True):
                if append.expect is not None:
                    self._ends(append.subject.name, seq)
            return seqs

    async def _look(self, appends: Sequence[Append], conflict: AppendConflict) -> None:
        """Find out where the subjects end."""
        if conflict.actual is not None:
            self._ends(conflict.subject, conflict.actual)
            return
        await asyncio.sleep(_CONTENTION_PAUSE)
        for append in appends:
            if append.expect is not None:
                record = await self._log.last(append.subject)
                self._ends(append.subject.name, record.seq if record is not None else 0)

    def _ends(self, subject: str, seq: int) -> None:
        self._heads[subject] = seq
        self._heads.move_to_end(subject)
        if len(self._heads) > _REMEMBERED:
            self._heads.popitem(last=False)


def _joined(appends: Sequence[Append]) -> list[Append]:
    """One append a subject."""
    drafts: dict[Subject, list[Draft]] = {}
    for append in appends:
        drafts.setdefault(append.subject, []).extend(append.drafts)
    return [Append(subject, tuple(found)) for subject, found in drafts.items()]


def _check(
    appends: Sequence[Append], results: Sequence[BaseException | None], *, some_stored: bool
) -> None:
    """Raise what the parts of one append mean for it as a whole."""
    errors = [result for result in results if result is not None]
    for error in errors:
        if not isinstance(error, AppendFailed | AppendUnknown | LogRewound | LogUnavailable):
            raise error
    if errors and (some_stored or any(isinstance(error, AppendUnknown) for error in errors)):
        ids = [draft.id for append in appends for draft in append.drafts]
        raise AppendUnknown(ids, str(errors[0])) from errors[0]
    if errors:
        raise errors[0]
