"""What waits for a person, on one shard: ids only. What is asked, and whether it still waits, is
said by the source that an id names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind, Listing
from foldlog.words import Line, Shown, clip

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
    fold=Fold(dict, _apply, state=dict[str, str | None], forgets_ids=True),
    shown=Shown(
        {
            BEGAN: "{id} waits",
            ENDED: lambda ended: Line("no longer waiting", clip(", ".join(ended.ids))),
        },
        group="lists",
    ),
)
"""By id, the session that each goes with. The key is a number that falls on the shard."""


def stem_of(source: str, keys: Sequence[str]) -> str:
    """How the ids begin of what waits at a source, in a view of these keys."""
    return "/".join((source, *(quote(key, safe=":", errors="strict") for key in keys), ""))


def listing(source: str) -> Listing:
    """What a kind declares whose views hold what waits at a source."""

    def off(keys: tuple[str, ...], listed: Mapping[str, str | None]) -> list[Ended]:
        stem = stem_of(source, keys)
        ids = tuple(id for id in listed if id.startswith(stem))
        return [Ended(ids)] if ids else []

    return Listing(kind, off)
