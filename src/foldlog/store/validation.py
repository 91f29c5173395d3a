"""What a store does about events whose payloads break the schema of their kind."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from foldlog.errors import PayloadError
from foldlog.models import StoredEvent
from foldlog.schemas import SCHEMAS, Schemas, Validate, problems

_log: Final = logging.getLogger("foldlog")


@dataclass(frozen=True, slots=True)
class Validation:
    """Looks at events before they are appended, as `validate` says."""

    validate: Validate = "off"
    schemas: Schemas | None = None

    def check(self, event: StoredEvent) -> None:
        """Pass the event, log one structured line about it ("warn"), or refuse it ("strict").

        Raises:
            PayloadError: strict, and the payload breaks its schema. `path` names where first.
        """
        if self.validate == "off":
            return
        found = problems(event, SCHEMAS if self.schemas is None else self.schemas)
        if not found:
            return
        if self.validate == "strict":
            raise PayloadError(found[0].path, f"{found[0].reason} (kind {event.kind!r:.80})")
        _log.warning(
            "event_schema_mismatch",
            extra={
                "event": "event_schema_mismatch",
                "kind": event.kind,
                "trace_id": event.trace_id,
                "problems": [f"{path}: {reason}" for path, reason in found],
            },
        )
