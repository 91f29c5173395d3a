"""How an append that is not on the log ends in a degrading store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from foldlog.errors import AppendUnknown, FoldlogError


class Spooled(AppendUnknown):
    """Kept on the local disk because of `cause`, and appended when the log is back.

    Not committed yet: to callers who are told, what they know of an AppendUnknown holds.
    """

    def __init__(self, ids: Sequence[str], cause: FoldlogError) -> None:
        super().__init__(ids, f"spooled: {cause}")
        self.cause = cause


class ClearedMeanwhile(FoldlogError):
    """What waited is not appended: its subject was cleared at sequence `cleared_at`."""

    def __init__(self, subject: str, cleared_at: int) -> None:
        super().__init__(
            f"{subject} was cleared at sequence {cleared_at}, which the writer of this had not seen"
        )
        self.subject = subject
        self.cleared_at = cleared_at


class NotSpooled(FoldlogError):
    """The spool could not keep an append."""


class Refused(FoldlogError):
    """The log takes others, but not these `envelopes`. They wait in `path` until somebody decides.

    Renamed to end in `.spool`, the file is tried again by whoever connects next.
    """

    def __init__(self, envelopes: int, path: Path, reason: str) -> None:
        super().__init__(f"the log refuses {envelopes} envelope(s): {reason}; kept in {path}")
        self.envelopes = envelopes
        self.path = path
        self.reason = reason
