"""What `list_updates` and `list_steering` share: once per id, in order, by cursor and limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, ClassVar

from foldlog.testing.base import Contract, Reopen
from foldlog.testing.exact import plain, scribble


class CursorContract(Contract):
    """A list that grows at its end and is read by pages. Subclassed for each of the two.

    Attributes:
        paged: how many items the paging test saves; the contract asks for 10,000.
    """

    save_name: ClassVar[str]
    list_name: ClassVar[str]
    id_name: ClassVar[str]
    paged: ClassVar[int] = 10_000

    def item(self, id_: str, session_id: str = "session", **fields: Any) -> Any:
        """Return an item `id_` of `session_id` to save, with these `fields`. Raises nothing."""
        raise NotImplementedError

    def save(self, store: Any, item: Any) -> Awaitable[None]:
        """Save `item` in `store`; return what to await."""
        saving: Awaitable[None] = getattr(store, self.save_name)(item)
        return saving

    async def items(self, store: Any, session_id: str = "session", **query: Any) -> list[Any]:
        """Return a page of `session_id` from `store` by `query`. Raises nothing."""
        return list(await getattr(store, self.list_name)(session_id, **query))

    async def ids(self, store: Any, session_id: str = "session", **query: Any) -> list[str]:
        """Return the ids of a page of `session_id` from `store` by `query`. Raises nothing."""
        return [
            getattr(item, self.id_name) for item in await self.items(store, session_id, **query)
        ]

    async def fill(self, store: Any, count: int, tasks: int = 1) -> list[str]:
        """Save `count` items in `store`, of `tasks` tasks; return their ids. Raises nothing."""
        for number in range(count):
            await self.save(store, self.item(f"id-{number}", task_id=f"task-{number % tasks}"))
        return [f"id-{number}" for number in range(count)]

    # --- what is there ----------------------------------------------------------------------------

    async def test_an_unknown_session_is_empty(self, store: Any) -> None:
        """MUST, section 8: empty, not an error."""
        assert await self.items(store, "nonexistent") == []
        assert await self.items(store, "nonexistent", since_id="x", task_id="y", limit=3) == []

    async def test_items_of_one_moment_keep_the_order_of_saves(self, store: Any) -> None:
        """SHOULD, Ordering Guarantees: stable, oldest first, whatever their ids sort like."""
        ids = [f"id-{(7 * n) % 50}" for n in range(50)]
        for id_ in ids:
            await self.save(store, self.item(id_))
        for _ in range(2):
            assert await self.ids(store) == ids

    async def test_the_order_is_the_same_after_a_restart(self, store: Any, restart: Reopen) -> None:
        """SHOULD, Ordering Guarantees: a cursor outlives the process that gave it."""
        ids = [f"id-{(7 * n) % 20}" for n in range(20)]
        for id_ in ids:
            await self.save(store, self.item(id_))
        again = await restart()
        assert await self.ids(again) == ids
        assert await self.ids(again, since_id=ids[4]) == ids[5:]

    async def test_an_id_is_kept_once(self, store: Any) -> None:
        """SHOULD, section 8: retries re-emit the same id. Its place is the first."""
        for id_ in ("a", "b", "a", "c", "a"):
            await self.save(store, self.item(id_))
        assert await self.ids(store) == ["a", "b", "c"]

    async def test_an_id_is_kept_once_after_a_restart(self, store: Any, restart: Reopen) -> None:
        """SHOULD, Idempotency Requirements: retries come from restarted processes too."""
        for id_ in ("a", "b"):
            await self.save(store, self.item(id_))
        again = await restart()
        await self.save(again, self.item("a"))
        await self.save(again, self.item("c"))
        assert await self.ids(again) == ["a", "b", "c"]
        assert await self.ids(await restart()) == ["a", "b", "c"]

    async def test_concurrent_saves_of_one_id_keep_one(self, store: Any) -> None:
        """SHOULD, Idempotency Requirements: a retry may overtake its original."""
        await self.at_once(self.save(store, self.item(f"id-{n % 4}")) for n in range(64))
        assert sorted(await self.ids(store)) == ["id-0", "id-1", "id-2", "id-3"]

    async def test_two_stores_saving_one_id_keep_one(self, store: Any, beside: Reopen) -> None:
        """SHOULD, Idempotency Requirements: in whichever process the retry runs."""
        stores = (store, await beside())
        await self.at_once(
            self.save(stores[n % 2], self.item(f"id-{n // 2 % 4}")) for n in range(64)
        )
        listed = await self.ids(await beside())
        assert sorted(listed) == ["id-0", "id-1", "id-2", "id-3"]
        assert await self.ids(await beside()) == listed

    async def test_one_id_in_two_sessions_is_two_items(self, store: Any) -> None:
        """Beyond: ids are the sessions' own."""
        one, two = self.item("same", "one", task_id="1"), self.item("same", "two", task_id="2")
        await self.save(store, one)
        await self.save(store, two)
        assert [plain(item) for item in await self.items(store, "one")] == [plain(one)]
        assert [plain(item) for item in await self.items(store, "two")] == [plain(two)]

    # --- pages ------------------------------------------------------------------------------------

    async def test_without_a_cursor_the_latest_are_listed(self, store: Any) -> None:
        """SHOULD, reference implementation: a backfill is the end of the list, oldest first."""
        ids = await self.fill(store, 10)
        assert await self.ids(store, limit=3) == ids[-3:]
        assert await self.ids(store, limit=100) == ids

    async def test_an_unknown_cursor_is_no_cursor(self, store: Any) -> None:
        """MUST, section 8: the same as without one."""
        ids = await self.fill(store, 10)
        await self.save(store, self.item("elsewhere", "other"))
        for unknown in ("unknown", "elsewhere"):
            assert await self.ids(store, since_id=unknown) == ids
            page = await self.ids(store, since_id=unknown, limit=3)
            assert page == await self.ids(store, limit=3)
            assert len(page) == 3

    async def test_a_cursor_is_exclusive(self, store: Any) -> None:
        """SHOULD, section 8; required test 11."""
        ids = await self.fill(store, 10)
        assert await self.ids(store, since_id="id-2") == ids[3:]
        assert await self.ids(store, since_id="id-9") == []

    async def test_a_page_is_the_first_after_its_cursor(self, store: Any) -> None:
        """SHOULD, Ordering Guarantees: else paging forward loses items in between."""
        ids = await self.fill(store, 10)
        assert await self.ids(store, since_id="id-2", limit=3) == ids[3:6]
        assert await self.ids(store, since_id="id-8", limit=3) == ids[9:]

    async def test_the_default_limit_is_500(self, store: Any) -> None:
        """MUST, signature."""
        await self.at_once(self.save(store, self.item(f"id-{n}")) for n in range(510))
        in_order = await self.ids(store, limit=10_000)
        assert len(in_order) == 510
        page = await self.ids(store)
        assert page == await self.ids(store, limit=500)
        assert len(page) == 500

    async def test_the_default_limit_is_500_after_a_cursor(self, store: Any) -> None:
        """SHOULD, signature and Ordering Guarantees: 500, and the first that follow."""
        await self.at_once(self.save(store, self.item(f"id-{n}")) for n in range(510))
        in_order = await self.ids(store, limit=10_000)
        assert await self.ids(store, since_id=in_order[4]) == in_order[5:505]

    async def test_a_limit_below_one_lists_nothing(self, store: Any) -> None:
        """Beyond: a limit is never exceeded."""
        ids = await self.fill(store, 3)
        assert await self.ids(store) == ids
        for limit in (0, -1):
            assert await self.ids(store, limit=limit) == []
            assert await self.ids(store, since_id="id-0", limit=limit) == []

    async def test_a_task_is_listed_alone(self, store: Any) -> None:
        """MUST, signature: `task_id` filters."""
        ids = await self.fill(store, 12, tasks=3)
        assert await self.ids(store, task_id="task-1") == ids[1::3]
        assert await self.ids(store, task_id="unknown") == []

    async def test_the_limit_counts_what_the_filter_leaves(self, store: Any) -> None:
        """SHOULD, section 8: never filter after the limit."""
        ids = await self.fill(store, 12, tasks=3)
        assert await self.ids(store, task_id="task-0", limit=2) == ids[0::3][-2:]

    async def test_a_filtered_page_is_the_first_after_its_cursor(self, store: Any) -> None:
        """SHOULD, section 8: filter, cursor and limit together."""
        ids = await self.fill(store, 12, tasks=3)
        assert await self.ids(store, task_id="task-1", since_id="id-1", limit=2) == ids[4::3][:2]

    async def test_a_cursor_counts_among_all_tasks(self, store: Any) -> None:
        """SHOULD, Ordering Guarantees: one order, for a cursor of any task."""
        ids = await self.fill(store, 12, tasks=3)
        # id-5 belongs to task-2; what follows it of task-0 is 6 and 9.
        assert await self.ids(store, task_id="task-0", since_id="id-5") == [ids[6], ids[9]]
        assert await self.ids(store, task_id="task-0", since_id="id-11") == []

    async def test_paging_loses_nothing(self, store: Any) -> None:
        """SHOULD, Ordering Guarantees: over ten thousand items of two tasks."""
        ids = [f"id-{n}" for n in range(self.paged)]
        await self.at_once(
            self.save(store, self.item(id_, task_id=f"task-{n % 2}")) for n, id_ in enumerate(ids)
        )
        in_order = await self.ids(store, limit=2 * self.paged)
        assert sorted(in_order) == sorted(ids)

        pages = await self._pages(store, in_order[0], limit=499)
        assert in_order[:1] + pages == in_order

    async def test_paging_one_task_loses_nothing(self, store: Any) -> None:
        """SHOULD, Ordering Guarantees: also from a cursor of another task."""
        ids = await self.fill(store, 60, tasks=2)
        assert await self._pages(store, "id-0", task_id="task-1", limit=7) == ids[1::2]

    async def test_paging_goes_on_after_a_restart(self, store: Any, restart: Reopen) -> None:
        """SHOULD, Ordering Guarantees: a cursor outlives the process that gave it."""
        ids = await self.fill(store, 60)
        page = await self.ids(store, since_id=ids[0], limit=7)
        assert page == ids[1:8]
        assert await self._pages(await restart(), page[-1], limit=7) == ids[8:]

    # --- many writers -----------------------------------------------------------------------------

    async def test_each_concurrent_writer_finds_its_items_in_order(self, store: Any) -> None:
        """SHOULD, Ordering Guarantees: among other writers."""
        await self.at_once(self._write(store, writer) for writer in range(10))
        _assert_each_in_order(await self.ids(store))

    async def test_a_poller_behind_writers_misses_nothing(self, store: Any) -> None:
        """SHOULD, Ordering Guarantees: what appears, appears behind every cursor given out."""
        await self.save(store, self.item("first"))
        seen = ["first"]
        written: asyncio.Queue[bool] = asyncio.Queue()

        async def write(writer: int) -> None:
            await self._write(store, writer, written)

        async def poll() -> None:
            for _ in range(200):
                await written.get()
                seen.extend(await self.ids(store, since_id=seen[-1], limit=7))

        await asyncio.gather(poll(), *(write(writer) for writer in range(10)))
        seen += await self._pages(store, seen[-1], limit=7)
        assert seen == await self.ids(store)
        _assert_each_in_order(seen)

    async def test_two_stores_writing_lose_nothing(self, store: Any, beside: Reopen) -> None:
        """Beyond: in two processes, and everybody who comes later agrees on the order."""
        stores = (store, await beside())
        await self.at_once(self._write(stores[writer % 2], writer) for writer in range(10))
        listed = await self.ids(await beside())
        _assert_each_in_order(listed)
        assert await self.ids(await beside()) == listed

    # --- ids and objects --------------------------------------------------------------------------

    async def test_hostile_sessions_never_collide(self, store: Any) -> None:
        """Beyond: an id is data."""
        for number, session_id in enumerate(self.hostile_ids):
            await self.save(store, self.item(f"id-{number}", session_id))
        for number, session_id in enumerate(self.hostile_ids):
            assert await self.ids(store, session_id) == [f"id-{number}"], session_id

    async def test_hostile_ids_are_cursors_and_filters_like_others(self, store: Any) -> None:
        """Beyond: an id is data."""
        ids = list(self.hostile_ids)
        for id_ in ids:
            await self.save(store, self.item(id_, task_id=id_))
        assert await self.ids(store) == ids
        for number, id_ in enumerate(ids):
            assert await self.ids(store, task_id=id_) == [id_]
            assert await self.ids(store, since_id=id_) == ids[number + 1 :]

    async def test_what_was_saved_may_be_changed_afterwards(self, store: Any) -> None:
        """Beyond: the list holds what was true when it was saved."""
        item = self.item("id", content={"text": "kept", "list": [1]})
        saved = plain(item)
        await self.save(store, item)
        scribble(item)
        assert plain(await self.items(store)) == [saved]

    async def test_what_was_loaded_may_be_changed(self, store: Any) -> None:
        """Beyond: one reader cannot change what another sees."""
        item = self.item("id", content={"text": "kept", "list": [1]})
        saved = plain(item)
        await self.save(store, item)
        scribble(await self.items(store))
        assert plain(await self.items(store)) == [saved]

    async def _pages(self, store: Any, cursor: str, **query: Any) -> list[str]:
        """Page to the end, from behind `cursor`."""
        pages: list[str] = []
        while page := await self.ids(store, since_id=cursor, **query):
            # Or else this would never end.
            assert not {cursor, *pages}.intersection(page), "a page repeats what was there before"
            pages, cursor = pages + page, page[-1]
        return pages

    async def _write(
        self, store: Any, writer: int, written: asyncio.Queue[bool] | None = None
    ) -> None:
        for number in range(20):
            await self.save(store, self.item(f"{writer}-{number}"))
            if written is not None:
                written.put_nowait(True)


def _assert_each_in_order(ids: list[str]) -> None:
    for writer in range(10):
        mine = [id_ for id_ in ids if id_.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{number}" for number in range(20)]
