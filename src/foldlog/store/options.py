"""How a store behaves, whatever its log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from foldlog.errors import ConfigurationError
from foldlog.kind import Kind
from foldlog.models import ArtifactRetentionConfig
from foldlog.store.redaction import Redact
from foldlog.store.validation import Validation
from foldlog.views import DEFAULT_MAX_HOT_BYTES


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """`pause_ttl` in seconds, `max_hot_bytes` in bytes; the others as `foldlog.connect` has them.

    Raises:
        ConfigurationError: one of them cannot be used.
    """

    on_error: Literal["raise", "degrade"] = "raise"
    pause_ttl: float = 3600.0
    strict_steering: bool = False
    retention: ArtifactRetentionConfig = field(default_factory=ArtifactRetentionConfig)
    validation: Validation = field(default_factory=Validation)
    max_hot_bytes: int = DEFAULT_MAX_HOT_BYTES
    redact: Redact | None = None
    kinds: tuple[Kind[Any], ...] = ()

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "degrade"):
            raise ConfigurationError(f'on_error is "raise" or "degrade", not {self.on_error!r}')
        if isinstance(self.pause_ttl, bool) or not isinstance(self.pause_ttl, int | float):
            raise ConfigurationError(f"pause_ttl is a number of seconds, not {self.pause_ttl!r}")
        size = self.max_hot_bytes
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ConfigurationError(f"max_hot_bytes is a number of bytes, not {size!r:.80}")
