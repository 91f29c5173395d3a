"""Whose memory it is: a key of tenant, user and session that no two of them share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from foldlog.errors import ConfigurationError
from foldlog.sessions.errors import MemoryKeyMissing
from foldlog_projections.memory import UNKNOWN, escaped


@dataclass(frozen=True, slots=True)
class MemoryIsolation:
    """Where a tool context says whose memory it is: paths of keys, separated by dots.

    With `require_explicit_key`, one that does not say is refused. Without, what is missing counts
    as one and the same tenant, user or session.
    """

    tenant_key: str = "tenant_id"
    user_key: str = "user_id"
    session_key: str = "session_id"
    require_explicit_key: bool = True

    def __post_init__(self) -> None:
        for name in ("tenant_key", "user_key", "session_key"):
            path = getattr(self, name)
            if not isinstance(path, str) or not path:
                raise ConfigurationError(f"{name} is a path of keys, not {path!r:.80}")

    def key(self, tool_context: Mapping[str, Any]) -> str:
        """Return `<tenant>:<user>:<session>`, each part escaped.

        Raises:
            MemoryKeyMissing: a part is not there, and has to be.
        """
        paths = (self.tenant_key, self.user_key, self.session_key)
        return ":".join(self._part(tool_context, path) for path in paths)

    def _part(self, tool_context: Mapping[str, Any], path: str) -> str:
        value = _found(tool_context, path)
        if value is not None:
            return escaped(value)
        if self.require_explicit_key:
            raise MemoryKeyMissing(path)
        return UNKNOWN


def _found(tool_context: Mapping[str, Any], path: str) -> str | None:
    value: Any = tool_context
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value).strip() or None
