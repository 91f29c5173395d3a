"""Cursor pages against the plainest statement of their rule."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from foldlog.envelope import Recorded
from foldlog.store.cursor import page
from foldlog_projections import updates
from foldlog_projections.fold import fold

RAW = b"\xc0"


@given(
    tasks=st.lists(st.sampled_from("ab"), max_size=25),
    task=st.none() | st.sampled_from("abc"),
    since=st.none() | st.integers(-2, 27),
    limit=st.integers(-1, 30),
)
def test_pages(tasks: list[str], task: str | None, since: int | None, limit: int) -> None:
    log = [
        Recorded(str(n), t, 1, 0.0, RAW, None, n, 0, "2026-01-01T00:00:00Z")
        for n, t in enumerate(tasks)
    ]
    since_id = None if since is None else str(since)
    matches = None if task is None else (lambda item: item.type == task)

    found = page(fold(updates, log), since_id=since_id, limit=limit, matches=matches)

    known = since is not None and 0 <= since < len(tasks)
    fitting = [item for item in log if task is None or item.type == task]
    if known:
        assert since is not None
        expected = [item for item in fitting if item.seq > since][: max(limit, 0)]
    else:
        expected = fitting[len(fitting) - min(len(fitting), max(limit, 0)) :]
    assert found == expected
