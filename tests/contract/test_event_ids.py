"""`save_events(ids=)`: an event whose source gives it an id takes effect once by it."""

from __future__ import annotations

import pytest

import foldlog
from tests.conftest import OpenStore
from tests.support.build import event


async def test_an_id_takes_effect_once_whatever_the_event_holds(reopen: OpenStore) -> None:
    """At any store; in each trace by itself; and beside events whose content is their id."""
    one, other = await reopen(), await reopen()
    first, changed = event(payload={"n": 1}), event(payload={"n": 2})
    await one.save_events([first, event("other", payload={"n": 1})], ids=["a", "a"])
    await other.save_events([changed, changed], ids=["a", "b"])
    await other.save_event(first)
    payloads = [each.payload for each in await other.load_history(str(first.trace_id))]
    assert payloads == [{"n": 1}, {"n": 2}, {"n": 1}]
    assert len(await other.load_history("other")) == 1


@pytest.mark.parametrize("ids", [[], ["a"], ["a", "b", "c"]])
async def test_there_is_an_id_for_each_event(ids: list[str]) -> None:
    async with foldlog.memory_store() as store:
        with pytest.raises(foldlog.PayloadError, match="of 2 events: give one for each"):
            await store.save_events([event(), event("other")], ids=ids)
        with pytest.raises(foldlog.InvalidId):
            await store.save_events([event()], ids=[""])
        assert await store.load_history(str(event().trace_id)) == []
