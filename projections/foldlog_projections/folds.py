"""The common folds, for kinds that need no other."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from foldlog.envelope import Recorded
from foldlog.kind import Fold, Kind, fields_of
from foldlog_projections.items import Items

E = TypeVar("E", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)

task_of: Final = fields_of("task_id")
"""The task that an envelope's record is about."""


def _append(state: Items, envelope: Recorded, /) -> Items:
    state.append(envelope)
    return state


def _append_by_task(state: Items, envelope: Recorded, /) -> Items:
    state.append(envelope, task_of(envelope))
    return state


def _last(state: Recorded | None, envelope: Recorded, /) -> Recorded | None:
    return envelope


every: Final[Fold[Items]] = Fold(
    Items, _append, takes="envelope", keep=Items.keep, restore=Items.restore
)
"""Every record, in log order. `store.view` gives a list."""

feed: Final[Fold[Items]] = Fold(
    Items, _append_by_task, takes="envelope", keep=Items.keep, restore=Items.restore
)
"""Every record, in log order, indexed by its task."""

last: Final[Fold[Recorded | None]] = Fold(lambda: None, _last, takes="envelope", latest_only=True)
"""The last record alone. `store.view` gives it, or None."""


def last_by(field: str) -> Fold[dict[Any, Recorded]]:
    """Return a fold that holds the last record of each value of a field.

    `store.view` gives a dict from value to record, in the order in which the values came first.

    Args:
        field: the field's name. It holds a string or an integer.
    """

    def apply(state: dict[Any, Recorded], value: Any, envelope: Recorded, /) -> dict[Any, Recorded]:
        state[value] = envelope
        return state

    state = dict[str | int | None, Recorded]
    return Fold(dict, apply, state=state, takes="field", replaces=field)


def listed(field: str, entry: type[E]) -> Fold[dict[str, E]]:
    """Return a fold of an index: by a field, the last entry, until another record takes it off."""

    def apply(state: dict[str, E], record: Any, _: Recorded, /) -> dict[str, E]:
        name = getattr(record, field)
        if isinstance(record, entry):
            state[name] = record
        else:
            state.pop(name, None)
        return state

    state: Any = dict[str, entry]  # type: ignore[valid-type]
    return Fold(dict, apply, state=state, replaces=field, forgets_ids=True)


def off_list(gone: Callable[[str], R]) -> Callable[[tuple[str, ...], Any], list[R]]:
    """Return what takes the view of these keys off such an index, where its last key names it."""
    return lambda keys, entries: [gone(keys[-1])] if keys[-1] in entries else []


RECORDS: Final = "records"


@functools.cache
def all_records(kind: Kind[Any]) -> Kind[Items]:
    """All records of a kind, in order: for pages and watchers of kinds that fold otherwise."""
    return Kind(RECORDS, of=kind.of or kind, fold=every)
