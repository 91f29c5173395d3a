"""The common folds, for kinds that need no other."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold
from foldlog_projections import latest, sequence
from foldlog_projections.items import Items
from foldlog_projections.kept import as_pairs

every: Final[Fold[Items]] = Fold(sequence.initial, sequence.apply)
"""Every record, in log order. `store.view` gives a list."""

last: Final[Fold[Recorded | None]] = Fold(
    latest.initial, latest.apply, latest_only=True, replaces=getattr(latest, "replaces", None)
)
"""The last record alone. `store.view` gives it, or None."""


class AllRecords:
    """All records of a family, in order: for pages and watchers of kinds that fold otherwise."""

    name = "records"
    version = 1
    latest_only = False
    replaces = None
    initial = staticmethod(sequence.initial)
    apply = staticmethod(sequence.apply)

    def __init__(self, family: str) -> None:
        self.family = family


def last_by(field: str) -> Fold[dict[Any, Recorded]]:
    """The last record of each value of a field, in the order in which the values came first.

    `store.view` gives a dict from value to record. The field holds a string or a number.
    """
    schema = msgspec.defstruct("Field", [(field, str | int)])
    decoder = msgspec.msgpack.Decoder(schema)
    keep, restore = as_pairs(str | int, Recorded)  # type: ignore[arg-type]  # a union is a type

    def value_of(envelope: Recorded) -> Any:
        return getattr(decoder.decode(envelope.payload), field)

    def apply(state: dict[Any, Recorded], envelope: Recorded, /) -> dict[Any, Recorded]:
        state[value_of(envelope)] = envelope
        return state

    return Fold(dict, apply, keep, restore, replaces=value_of)
