"""What goes wrong with projectors."""

from __future__ import annotations

from foldlog.errors import FoldlogError
from foldlog.store.subscribing import LogItem


class ProjectorFailed(FoldlogError):
    """A projector's function, or the database, has refused a record; nothing of it was written.

    `projector` is its name, `item` the record; the error is the `__cause__`.
    """

    def __init__(self, projector: str, item: LogItem, error: Exception) -> None:
        view = "/".join((item.kind, *item.keys))
        super().__init__(
            f"projector {projector} cannot take {item.type} {item.id!r:.80} of {view:.120} at "
            f"{item.position}: {type(error).__name__}: {error!s:.500}; it is tried again, and "
            f"`foldlog project --park {projector}` leaves it out"
        )
        self.projector = projector
        self.item = item
