"""What agent state raises beside `foldlog.errors`. All of them are FoldlogErrors."""

from __future__ import annotations

from foldlog.errors import FoldlogError


class IncompatibleAgentState(FoldlogError):
    """The stored state was written by another model, or by another version of it.

    `stored` and `wanted` are the names of the models with their versions, as in `Cart 2`.
    """

    def __init__(self, scope: str, key: str, stored: str, wanted: str, reason: str) -> None:
        super().__init__(
            f"state {key!r:.80} of {scope!r:.80} was written as {stored} and cannot be read as "
            f"{wanted}: {reason}"
        )
        self.scope = scope
        self.key = key
        self.stored = stored
        self.wanted = wanted
        self.reason = reason


class ShareRefused(FoldlogError):
    """A token does not open this. `reason` says why; the message does not quote the token."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the token is refused: {reason}")
        self.reason = reason


class TurnEnded(FoldlogError):
    """The context of a turn was used after the turn had ended."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"the turn of {scope!r:.80} has ended: begin another one")
        self.scope = scope
