"""Tables whose rows are what a view holds now, as its kind declares: messages, steps, others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind
from foldlog.words import Rows

_encode: Final = msgspec.msgpack.Encoder().encode


class Held(msgspec.Struct):
    """A view, and the last envelope that has changed each of its rows, by the row's id."""

    state: Any
    latest: dict[Any, Recorded]


def fold_of(kind: Kind[Any], rows: Rows[Any]) -> Kind[Held]:
    """Return the fold of a kind's records whose state gives rows."""

    def apply(held: Held, envelope: Recorded) -> Held:
        changed = rows.changed(kind.decode(envelope))
        if changed is not None:
            held.state = kind.apply(held.state, envelope)
            held.latest |= dict.fromkeys(changed, envelope)
        return held

    fold = Fold(lambda: Held(kind.initial(), {}), apply, takes="envelope")
    return Kind(f"sql_{kind.name}"[:32], of=kind, fold=fold)


def rows_of(rows: Rows[Any], held: Held) -> Iterable[Recorded]:
    """Yield the rows of a view: each as the envelope that changed it, with the row as payload."""
    for id, row in rows.of(held.state).items():
        if id in held.latest:
            yield replace(held.latest[id], payload=_encode(row))
