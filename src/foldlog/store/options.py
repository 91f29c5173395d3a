"""How a store behaves, whatever its log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from foldlog.errors import ConfigurationError
from foldlog.kind import Kind
from foldlog.models import ArtifactRetentionConfig
from foldlog.schemas import Schemas, Validate
from foldlog.store.kinds import chosen_kinds
from foldlog.store.redaction import Redact
from foldlog.views import DEFAULT_MAX_HOT_BYTES


@dataclass(frozen=True, slots=True)
class StoreOptions:
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

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "degrade"):
            raise ConfigurationError(f'on_error is "raise" or "degrade", not {self.on_error!r}')
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
