"""How an append that is not on the log ends in a degrading store."""

from __future__ import annotations

from collections.abc import Sequence

from foldlog.errors import AppendUnknown, FoldlogError


class Spooled(AppendUnknown):
    """Kept on the local disk because of `cause`, and appended when the log is back.

    Not committed yet: to callers who are told, what they know of an AppendUnknown holds.
    """

    def __init__(self, ids: Sequence[str], cause: FoldlogError) -> None:
        super().__init__(ids, f"spooled: {cause}")
        self.cause = cause


class NotSpooled(FoldlogError):
    """The spool could not keep an append."""
