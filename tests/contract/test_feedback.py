"""Feedback on traces."""

from __future__ import annotations

from typing import Any

import pytest

import foldlog
from tests.conftest import OpenStore
from tests.support.build import trajectory


async def test_feedback_is_listed_in_the_order_in_which_it_was_given(
    store: foldlog.Store, reopen: OpenStore
) -> None:
    assert await store.list_feedback("trace") == []
    await store.save_feedback("trace", score=1, author="ann")
    await store.save_feedback("trace", comment="too slow")
    await store.save_feedback("trace", score=1, author="ann")
    await store.save_feedback("another", score=0.5)
    for reader in (store, await reopen()):
        found = await reader.list_feedback("trace", consistency="strong")
        said = [(each.score, each.comment, each.author) for each in found]
        assert said == [(1.0, None, "ann"), (None, "too slow", None), (1.0, None, "ann")]
        assert {each.trace_id for each in found} == {"trace"}


@pytest.mark.parametrize(
    "given",
    [{}, {"author": "ann"}, {"score": "1"}, {"score": float("nan")}, {"comment": 1}],
)
async def test_feedback_that_says_nothing_or_cannot_be_held_is_refused(
    store: foldlog.Store, given: dict[str, Any]
) -> None:
    with pytest.raises(foldlog.PayloadError):
        await store.save_feedback("trace", **given)
    with pytest.raises(foldlog.InvalidId):
        await store.save_feedback("", score=1)
    assert await store.list_feedback("trace") == []


async def test_feedback_goes_with_its_session_and_is_there_in_the_past(
    store: foldlog.Store,
) -> None:
    await store.save_trajectory("trace", "session", trajectory())
    await store.save_feedback("trace", score=1)
    then = await store.position()
    await store.save_feedback("trace", score=2)
    assert [each.score for each in await store.at(then).list_feedback("trace")] == [1.0]
    erased = await store.erase_session("session")
    assert erased.removed["feedback"] == 2
    assert await store.list_feedback("trace") == []


async def test_comments_are_redacted(reopen: OpenStore) -> None:
    store = await reopen(redact=lambda saving: dict.fromkeys(saving.values, "***"))
    await store.save_feedback("trace", score=1, comment="card 4111")
    [found] = await store.list_feedback("trace")
    assert (found.score, found.comment) == (1.0, "***")
