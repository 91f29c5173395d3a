"""Cursor pages against the plainest statement of their rule."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, strategies as st

from foldlog.envelope import Recorded
from foldlog.errors import PayloadError
from foldlog.store.primitives import page
from foldlog_projections.items import PAGE
from foldlog_projections.updates import kind as updates
from tests.support.folding import fold


def envelope(n: int, task: str) -> Recorded:
    payload = msgspec.msgpack.encode({"task_id": task})
    return Recorded(str(n), "x", 1, 0.0, payload, None, n, 0, "2026-01-01T00:00:00Z")


@given(
    before=st.sampled_from([0, PAGE - 3, 2 * PAGE]),
    tasks=st.lists(st.sampled_from("ab"), max_size=25),
    task=st.none() | st.sampled_from("abc"),
    since=st.none() | st.integers(-2, 27),
    limit=st.integers(-1, 30),
)
def test_pages(
    before: int, tasks: list[str], task: str | None, since: int | None, limit: int
) -> None:
    tasks = ["a"] * before + tasks
    log = [envelope(n, of) for n, of in enumerate(tasks)]
    since = None if since is None else since + before
    folded = fold(updates, log)

    found = folded.state.take(
        page(since_id=None if since is None else str(since), limit=limit, task_id=task)(folded)
    )

    known = since is not None and 0 <= since < len(tasks)
    fitting = [item for item, of in zip(log, tasks, strict=True) if task in (None, of)]
    if known:
        assert since is not None
        expected = [item for item in fitting if item.seq > since][: max(limit, 0)]
    else:
        expected = fitting[len(fitting) - min(len(fitting), max(limit, 0)) :]
    assert found == expected


@pytest.mark.parametrize("wrong", [{"since_id": 1}, {"task_id": ["t"]}, {"limit": "1"}])
def test_what_is_no_cursor_is_refused(wrong: dict[str, object]) -> None:
    asked = {"since_id": None, "limit": 1, **wrong}
    with pytest.raises(PayloadError, match=next(iter(wrong))):
        page(**asked)  # type: ignore[arg-type]  # that is the point
