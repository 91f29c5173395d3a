"""Task updates: what is theirs alone. Cursors and dedupe stand in `test_cursor_lists`."""

from __future__ import annotations

import foldlog
from foldlog import UpdateType
from tests.conftest import OpenStore
from tests.support.build import MOMENT, update
from tests.support.exact import same


async def test_an_update_comes_back_as_it_was(store: foldlog.Store, reopen: OpenStore) -> None:
    saved = foldlog.StateUpdate(
        session_id="session",
        task_id="task",
        trace_id="trace",
        update_id="update-1",
        update_type=UpdateType.TOOL_CALL,
        content={"raw": b"\x00\xff", "nan": float("nan"), "big": -(10**30), "pair": (1, "x")},
        step_index=0,
        total_steps=3,
        created_at=MOMENT,
    )
    await store.save_update(saved)
    for reader in (store, await reopen()):
        [loaded] = await reader.list_updates("session")
        assert same(loaded.content, saved.content)
        assert loaded.model_copy(update={"content": None}) == saved.model_copy(
            update={"content": None}
        )
        assert loaded.update_type is UpdateType.TOOL_CALL


async def test_any_content_is_held(store: foldlog.Store) -> None:
    contents = [None, True, 0, "", b"", [], {}, "text", 1.5, [[], {}]]
    for i, content in enumerate(contents):
        await store.save_update(update(f"u{i}", content=content))
    listed = [u.content for u in await store.list_updates("session")]
    assert same(listed, contents)


async def test_every_type_of_update_is_held(store: foldlog.Store) -> None:
    for kind in UpdateType:
        await store.save_update(update(kind.value, update_type=kind))
    assert [u.update_type for u in await store.list_updates("session")] == list(UpdateType)


async def test_the_names_of_earlier_releases_work(store: foldlog.Store) -> None:
    for i in range(4):
        await store.save_task_update(update(f"u{i}", task_id=f"task-{i % 2}"))
    assert await store.list_task_updates("session") == await store.list_updates("session")
    page = await store.list_task_updates("session", task_id="task-1", since_id="u0", limit=1)
    assert [u.update_id for u in page] == ["u1"]
