"""A log that is long, fast: the records that so many single saves leave, 1,000 in a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import msgspec

from benchmarks import workload
from foldlog import AppendConflict, StateUpdate, Store, kinds
from foldlog.envelope import Writer, pack
from foldlog.kind import Key
from foldlog.store.core import core_of
from foldlog.store.updates import UPDATES

Save = tuple[Key[Any], msgspec.Struct]
"""What a save appends, and where."""

_BATCH = 1_000


def with_spread(count: int, *, each: int, spread: Sequence[int]) -> Iterator[StateUpdate]:
    """`count` updates in sessions of `each`, one session after another, and spread sessions.

    `spread` says for each of the latter among how many updates it has one. No two texts are the
    same: an archive is compressed.
    """
    for number in range(count):
        yield workload.update(number // each, workload.another_text())
        for session, among in enumerate(spread):
            if number % among == among // 2:
                yield workload.update(spread_session(session), workload.another_text())


def spread_session(number: int) -> int:
    """The number of a session that `with_spread` spreads."""
    return -1 - number


def as_saved(updates: Iterable[StateUpdate]) -> Iterator[Save]:
    """What saving these updates appends."""
    for update in updates:
        yield kinds.updates(update.session_id), UPDATES.record(update)


async def load(store: Store, saves: Iterable[Save]) -> None:
    """Append a record for each save to the one shard of a log that nobody else saves to."""
    core = core_of(store)
    [head] = await core.log.heads()
    writer, waiting = Writer(), iter(saves)
    while some := list(islice(waiting, _BATCH)):
        drafted = [core.drafts("load", key, record) for key, record in some]
        records = [(on, pack(writer.stamped(all_, head, None)), "") for on, all_ in drafted]
        try:
            await core.log.restore(0, records, after=head)
        except AppendConflict:  # an archiver has written a manifest
            [head] = await core.log.heads()
            await core.log.restore(0, records, after=head)
        head += len(records)
