"""What waits for a person, on one shard: ids only. What is asked, and whether it still waits, is
said by the source that an id names.
"""

from __future__ import annotations

from typing import Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind

BEGAN: Final = "waiting.began"
ENDED: Final = "waiting.ended"


class Began(msgspec.Struct, frozen=True, omit_defaults=True):
    """`waiting.began`: this waits from now on. `session_id` is the session that it goes with."""

    id: str
    session_id: str | None = None


class Ended(msgspec.Struct, frozen=True):
    """`waiting.ended`: these were answered, or nobody waits for them any more."""

    ids: tuple[str, ...]


def _apply(
    state: dict[str, str | None], record: Began | Ended, _: Recorded
) -> dict[str, str | None]:
    if isinstance(record, Began):
        state[record.id] = record.session_id
    else:
        for id in record.ids:
            state.pop(id, None)
    return state


kind: Final = Kind(
    "waiting",
    keys=("shard",),
    records={BEGAN: Began, ENDED: Ended},
    fold=Fold(dict, _apply, state=dict[str, str | None]),
)
"""By id, the session that each goes with. The key is a number that falls on the shard."""
