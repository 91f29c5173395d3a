"""Events of tasks are pushed by the log, and so are configurations of who else gets them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from a2a.server.cluster import TaskVersion, VersionedEvent
from a2a.types import TaskPushNotificationConfig

import foldlog
from foldlog.integrations.a2a import (
    FoldlogPushNotificationConfigStore,
    FoldlogTaskEventStream,
    FoldlogVersionedTaskStore,
)
from foldlog.integrations.objects import Unreadable
from tests.integrations.a2a.support import ANN, BOB, MISSING, chunk, now, save, task

PATIENCE = 30  # seconds until what should come is called missing


async def take(log: foldlog.Store, count: int, after: TaskVersion) -> list[VersionedEvent]:
    found = []
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(FoldlogTaskEventStream(log).subscribe("t1", after=after)) as events,
    ):
        async for event in events:
            found.append(event)
            if len(found) == count:
                break
    return found


async def test_a_subscriber_gets_what_comes_behind_its_version(log: foldlog.Store) -> None:
    tasks, going = FoldlogVersionedTaskStore(log), task(state="working")
    first = await save(tasks, going, event=going)
    second = await save(tasks, going, first)  # nothing to tell
    third = await save(tasks, going, second, chunk(going, "hello"))
    all_of_it = await take(log, 2, MISSING)
    assert [(e.version, type(e.event).__name__) for e in all_of_it] == [
        (first, "Task"),
        (third, "TaskArtifactUpdateEvent"),
    ]
    assert all_of_it[0].event == task(state="working")
    assert [e.version for e in await take(log, 1, first)] == [third]

    waits = asyncio.create_task(take(log, 1, third))
    last = await save(tasks, going, third, now(going, "completed", "Done."))
    [event] = await waits
    assert (event.version, event.event.status.message.parts[0].text) == (last, "Done.")


async def test_publishing_again_repeats_nothing(log: foldlog.Store) -> None:
    tasks, stream, going = FoldlogVersionedTaskStore(log), FoldlogTaskEventStream(log), task()
    event = now(going, "working")
    version = await save(tasks, going, event=event)
    await stream.publish("t1", VersionedEvent(event, version))
    done = now(going, "completed")
    last = await save(tasks, going, version, done)
    await stream.destroy("t1")
    assert [e.version for e in await take(log, 2, MISSING)] == [version, last]


async def test_a_version_of_another_store_is_refused(log: foldlog.Store) -> None:
    with pytest.raises(TypeError, match="integer versions"):
        await take(log, 1, TaskVersion("an etag"))


async def test_a_subscription_ends_with_its_store() -> None:
    log = foldlog.memory_store()
    waits = asyncio.create_task(take(log, 1, MISSING))
    await asyncio.sleep(0)
    await log.close()
    with pytest.raises(foldlog.StoreClosed):
        await waits


async def test_configurations_are_their_owners_and_go_with_the_task(log: foldlog.Store) -> None:
    configs = FoldlogPushNotificationConfigStore(log)
    given = TaskPushNotificationConfig(url="http://127.0.0.1/ann", token="s3cret")
    saved = await configs.set_info("t1", given, ANN)
    assert (saved.id, saved.task_id, given.id) == ("t1", "t1", "")
    await configs.set_info("t1", TaskPushNotificationConfig(id="b", url="http://127.0.0.1/b"), BOB)
    await configs.set_info("t1", TaskPushNotificationConfig(id="c", url="http://127.0.0.1/c"), BOB)
    assert await configs.get_info("t1", ANN) == [saved]
    assert [c.id for c in await configs.get_info_for_dispatch("t1")] == ["t1", "b", "c"]

    await configs.delete_info("t1", BOB, "t1")  # Ann's
    await configs.delete_info("t1", BOB, "b")
    assert [c.id for c in await configs.get_info_for_dispatch("t1")] == ["t1", "c"]
    await configs.delete_info("t1", BOB)
    assert await configs.get_info("t1", BOB) == []

    await save(FoldlogVersionedTaskStore(log), task())
    assert (await log.erase_session("trip")).readable == ()
    assert await configs.get_info_for_dispatch("t1") == []


@pytest.mark.parametrize("gone", ["gone", {"url": 1}, []])
async def test_a_configuration_that_a_hook_replaced_is_told_by_name(gone: Any) -> None:
    async with foldlog.memory_store(redact=lambda s: dict.fromkeys(s.values, gone)) as log:
        configs = FoldlogPushNotificationConfigStore(log)
        await configs.set_info("t1", TaskPushNotificationConfig(url="http://127.0.0.1"), ANN)
        with pytest.raises(Unreadable, match="t1"):
            await configs.get_info_for_dispatch("t1")
