"""The kinds of a store beside the built-in ones: those given, and those of installed packages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from importlib import metadata
from typing import Any, Final

from foldlog.errors import ConfigurationError
from foldlog.kind import Kind
from foldlog_projections.registry import FAMILIES, KINDS

GROUP: Final = "foldlog.kinds"
"""The entry points by which installed packages add kinds to every store."""


def chosen_kinds(given: Iterable[Kind[Any]] | None) -> tuple[Kind[Any], ...]:
    """Return the kinds of installed packages, and those that are given.

    Raises:
        ConfigurationError: one cannot be loaded, is no kind, or has a name or type that is taken.
    """
    if isinstance(given, str) or not isinstance(given, Iterable | None):
        raise ConfigurationError(f"kinds is a list of kinds, not {given!r:.80}")
    found = tuple(dict.fromkeys([*_installed(), *(given or ())]))
    names = dict.fromkeys(FAMILIES, "foldlog")
    types = {type: kind.name for kind in KINDS for type in kind.records}
    for each in found:
        if not isinstance(each, Kind):
            raise ConfigurationError(f"{each!r:.80} is no foldlog.Kind")
        if each.name in names:
            raise ConfigurationError(f"there are two kinds {each.name!r}")
        names[each.name] = each.name
        for type in each.records:
            if type in types:
                raise ConfigurationError(f"{each.name}: {type} is a record of {types[type]}")
            types[type] = each.name
    for each in found:
        if each.of is not None and each.of not in (*KINDS, *found):
            raise ConfigurationError(f"{each.name} folds {each.of.name}, which is not given")
    return found


@lru_cache(1)
def _installed() -> tuple[Any, ...]:
    """Reading what is installed takes milliseconds: once a process."""
    return tuple(_loaded(each) for each in metadata.entry_points(group=GROUP))


def _loaded(entry: metadata.EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:  # a foreign module may raise anything
        raise ConfigurationError(f"{GROUP} {entry.name} = {entry.value}: {error!r}") from error
