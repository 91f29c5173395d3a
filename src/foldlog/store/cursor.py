"""Pages over a sequence: the rules that `list_updates` and `list_steering` share."""

from __future__ import annotations

from collections.abc import Callable

from foldlog.envelope import Recorded
from foldlog.errors import PayloadError
from foldlog_projections.fold import Folded

Matches = Callable[[Recorded], bool]


def page(
    folded: Folded[list[Recorded]],
    *,
    since_id: str | None,
    limit: int,
    matches: Matches | None = None,
) -> list[Recorded]:
    """Return what a cursor asks for, in ascending order.

    After a known `since_id`: the first `limit` that match, so that paging loses nothing. Without
    one, or with one that nobody has seen: the last `limit` that match. The cursor counts in the
    order of the whole sequence, also where `matches` filters. A `limit` below 1 asks for nothing.

    Raises:
        PayloadError: `limit` is no integer, or `since_id` no string.
    """
    items = folded.state
    checked_limit(limit)
    checked_cursor(since_id)
    if limit < 1:
        return []
    if since_id is not None and since_id in folded.seen:
        # Every envelope that was applied was appended, so an id's ordinal is its place.
        return _take(items, folded.seen[since_id] + 1, limit, matches)
    if matches is None:
        return items[-limit:]
    latest: list[Recorded] = []
    for item in reversed(items):
        if matches(item):
            latest.append(item)
            if len(latest) == limit:
                break
    latest.reverse()
    return latest


def checked_cursor(since_id: str | None) -> str | None:
    """Return a cursor as it is.

    Raises:
        PayloadError: it is neither None nor a string.
    """
    if not isinstance(since_id, str | None):
        raise PayloadError("since_id", f"{since_id!r:.80} is not an id")
    return since_id


def checked_limit(limit: int) -> int:
    """Return a limit as it is.

    Raises:
        PayloadError: it is no integer.
    """
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise PayloadError("limit", f"{limit!r:.80} is not a number of items")
    return limit


def _take(items: list[Recorded], start: int, limit: int, matches: Matches | None) -> list[Recorded]:
    if matches is None:
        return items[start : start + limit]
    taken: list[Recorded] = []
    for index in range(start, len(items)):
        if matches(items[index]):
            taken.append(items[index])
            if len(taken) == limit:
                break
    return taken
