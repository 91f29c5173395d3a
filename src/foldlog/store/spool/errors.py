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


class GenerationOver(FoldlogError):
    """What waited is of before a clearing. `cleared_at` is the sequence where its subject begins.

    `known` is the sequence up to which its writer knew the log: the clearing came later.
    """

    def __init__(self, subject: str, known: int, cleared_at: int) -> None:
        super().__init__(
            f"{subject} was cleared at sequence {cleared_at}; this was saved by a writer who knew "
            f"the log up to {known}"
        )
        self.subject = subject
        self.known = known
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
