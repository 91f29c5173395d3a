"""How a store behaves, whatever its log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import metadata
from typing import Any, Final, Literal

from foldlog.errors import ConfigurationError
from foldlog.kind import Kind
from foldlog.models import ArtifactRetentionConfig
from foldlog.schemas import Schemas, Validate
from foldlog.store.redaction import Redact
from foldlog.views import DEFAULT_MAX_HOT_BYTES
from foldlog_projections.registry import FAMILIES, KINDS

GROUP: Final = "foldlog.kinds"
"""The entry points by which installed packages add kinds to every store."""


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of `foldlog.connect` that say nothing of its log, under the same names.

    `kinds` come to hold those of installed packages as well.

    Raises:
        ConfigurationError: one of them cannot be used.
    """

    on_error: Literal["raise", "degrade"] = "raise"
    pause_ttl: float = 3600.0
    strict_steering: bool = False
    retention: ArtifactRetentionConfig = field(default_factory=ArtifactRetentionConfig)
    validate: Validate = "off"
    schemas: Schemas | None = None
    max_hot_bytes: int = DEFAULT_MAX_HOT_BYTES
    redact: Redact | None = None
    kinds: Iterable[Kind[Any]] | None = None
    read_only: bool = False

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "degrade"):
            raise ConfigurationError(f'on_error is "raise" or "degrade", not {self.on_error!r}')
        if self.read_only and self.on_error == "degrade":
            raise ConfigurationError(
                'read_only=True and on_error="degrade": what only reads has nothing to spool'
            )
        if self.validate not in ("off", "warn", "strict"):
            raise ConfigurationError(
                f'validate is "off", "warn" or "strict", not {self.validate!r}'
            )
        if isinstance(self.pause_ttl, bool) or not isinstance(self.pause_ttl, int | float):
            raise ConfigurationError(f"pause_ttl is a number of seconds, not {self.pause_ttl!r}")
        size = self.max_hot_bytes
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ConfigurationError(f"max_hot_bytes is a number of bytes, not {size!r:.80}")
        object.__setattr__(self, "kinds", chosen_kinds(self.kinds))

    @property
    def all_kinds(self) -> tuple[Kind[Any], ...]:
        """The kinds beside the built-in ones."""
        return tuple(self.kinds or ())


def chosen_kinds(given: Iterable[Kind[Any]] | None) -> tuple[Kind[Any], ...]:
    """Return the kinds of installed packages, and those that are given."""
    if isinstance(given, str) or not isinstance(given, Iterable | None):
        raise ConfigurationError(
            f"kinds is a list of kinds, as in connect(kinds=[my_kind]), not {given!r:.80}"
        )
    found = tuple(dict.fromkeys([*_installed(), *(given or ())]))
    names = dict.fromkeys(FAMILIES, "foldlog")
    types = {type: kind.name for kind in KINDS for type in kind.records}
    for each in found:
        if not isinstance(each, Kind):
            raise ConfigurationError(f"{each!r:.80} is no foldlog.Kind")
        if each.name in names:
            raise ConfigurationError(
                f"there are two kinds {each.name!r}: give one of them another name"
            )
        names[each.name] = each.name
        for type in each.records:
            if type in types:
                raise ConfigurationError(f"{each.name}: {type} is a record of {types[type]}")
            types[type] = each.name
    for each in found:
        if each.of is not None and each.of not in (*KINDS, *found):
            raise ConfigurationError(
                f"{each.name} folds {each.of.name}, which is not given: add it to kinds=[...]"
            )
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
