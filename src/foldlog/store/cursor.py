"""Pages over a sequence: the rules that `list_updates` and `list_steering` share."""

from __future__ import annotations

from collections.abc import Sequence

from foldlog.errors import PayloadError, shown
from foldlog.views import Choose
from foldlog_projections.fold import Folded
from foldlog_projections.items import Items


def page(*, since_id: str | None, limit: int, task_id: str | None = None) -> Choose:
    """Return what chooses the ordinals that a cursor asks for; with `task_id`, of that task alone.

    After a known `since_id`: the first `limit` of them, so that paging loses nothing. Without
    one, or with one that was never seen: the last `limit` of them. The cursor counts in the
    order of the whole sequence, also for one task. A `limit` below 1 asks for nothing.

    Raises:
        PayloadError: `limit` is no integer, or `since_id` or `task_id` no string.
    """
    checked_limit(limit)
    checked_cursor(since_id)
    checked_cursor(task_id, "task_id")

    def choose(folded: Folded[Items]) -> Sequence[int]:
        if limit < 1:
            return range(0)
        # Every envelope that was applied was appended, so an id's ordinal is its place.
        since = None if since_id is None else folded.seen.get(since_id)
        if since is None:
            return folded.state.latest(limit, task_id)
        return folded.state.after(since, limit, task_id)

    return choose


def checked_cursor(since_id: str | None, field: str = "since_id") -> str | None:
    """Return a cursor, or another id that may be missing, as it is.

    Raises:
        PayloadError: it is neither None nor a string. `field` names it.
    """
    if since_id is not None and not isinstance(since_id, str):
        raise PayloadError(field, f"{shown(since_id)} is not an id")
    return since_id


def checked_limit(limit: int) -> int:
    """Return a limit as it is.

    Raises:
        PayloadError: it is no integer.
    """
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise PayloadError("limit", f"{shown(limit)} is not a number of items")
    return limit
