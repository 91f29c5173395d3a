"""Projections of users' own: where they come from, and how they are read."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import metadata
from typing import Any, Final

from foldlog.errors import ConfigurationError
from foldlog.store.journal import Journal
from foldlog.store.refolds import targets
from foldlog.views import Consistency
from foldlog_projections.fold import Projection
from foldlog_projections.items import Items
from foldlog_projections.kept import Kept
from foldlog_projections.own import OwnProjection, checked, family_of

GROUP: Final = "foldlog.projections"
"""The entry points by which installed packages add projections to every store."""


class OwnViews:
    """Reads the views of projections by name: users' own, and the built-in ones as they are."""

    def __init__(self, journal: Journal, own: Sequence[Projection[Any]]) -> None:
        self._journal = journal
        self._own = own

    async def view(self, name: str, *keys: str, consistency: Consistency = "session") -> Any:
        """Return the state of one view of a projection: a copy, which is the caller's.

        `keys` are those of the subject that it folds: a trace for the family "events", a session
        for "updates". A view of which nothing was saved is what `initial()` returns. Of a built-in
        projection the state is as its fold keeps it; it may change with every version.

        Raises:
            ConfigurationError: there is no such projection.
            InvalidId: a key is empty.
            LogUnavailable, LogCorrupt: the log could not be read as far as was asked for, or the
                projection failed on what it holds.
        """
        [projection] = targets(name, self._own)
        subject = self._journal.subject(family_of(projection), *keys)
        folded = await self._journal.views.read(projection, subject, consistency)
        state = folded.state
        if isinstance(state, Items):
            return list(state)
        if isinstance(projection, Kept):
            return projection.restore(projection.keep(state))
        return copy.deepcopy(state)


def own_projections(given: Iterable[Any] | None) -> tuple[OwnProjection[Any], ...]:
    """Return the projections of installed packages, and those that are given.

    Raises:
        ConfigurationError: one cannot be loaded, or is none.
    """
    if isinstance(given, str) or not isinstance(given, Iterable | None):
        raise ConfigurationError(f"projections is a list of projections, not {given!r:.80}")
    return checked([*_installed(), *(given or ())])


@lru_cache(1)
def _installed() -> tuple[Any, ...]:
    """Reading what is installed takes milliseconds: once a process."""
    return tuple(_loaded(each) for each in metadata.entry_points(group=GROUP))


def _loaded(entry: metadata.EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # a foreign module may raise anything
        raise ConfigurationError(f"{GROUP} {entry.name} = {entry.value}: {error!r}") from error
