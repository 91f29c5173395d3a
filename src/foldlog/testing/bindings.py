"""`find_binding`, `list_bindings`, `mark_binding_terminal`: a conversation finds its worker."""

from __future__ import annotations

from typing import Any, Final

from foldlog.testing.base import Contract, Reopen
from foldlog.testing.exact import plain, scribble

ROUTED: Final[dict[str, Any]] = {"router_session_id": "router", "remote_skill": "search"}
QUERY: Final[dict[str, Any]] = ROUTED | {"agent_url": "http://worker:8080"}


class BindingsContract(Contract):
    """Upserted on trace, context and task; looked up by router session, agent and skill.

    The look-ups, and the MUST of their tests, are those of PenguiFlow 3.11's conversation
    bindings; the StateStore specification 2.11 knows the saving only.
    """

    async def test_a_binding_comes_back_as_it_was(self, store: Any) -> None:
        """MUST, section 3; the routing is PenguiFlow 3.11's."""
        saved = self._full_binding()
        await store.save_remote_binding(saved)
        [loaded] = await store.list_bindings(router_session_id="router")
        assert isinstance(loaded, self.models.RemoteBinding)
        assert plain(loaded) == plain(saved)

    async def test_bindings_survive_a_restart(self, store: Any, restart: Reopen) -> None:
        """MUST, section 3; the routing is PenguiFlow 3.11's."""
        saved = self._full_binding()
        await store.save_remote_binding(saved)
        [loaded] = await (await restart()).list_bindings(router_session_id="router")
        assert plain(loaded) == plain(saved)

    async def test_an_unknown_router_has_no_bindings(self, store: Any) -> None:
        """MUST, PenguiFlow 3.11: empty and None, not an error."""
        assert list(await store.list_bindings(router_session_id="nonexistent")) == []
        assert await store.find_binding(**QUERY) is None

    async def test_saving_a_binding_twice_keeps_one(self, store: Any) -> None:
        """MUST, section 3: idempotent."""
        for _ in range(3):
            await store.save_remote_binding(self.build.binding(**ROUTED))
        assert list(await self._listed(store)) == ["task"]

    async def test_a_binding_is_replaced_by_its_key(self, store: Any) -> None:
        """SHOULD, section 3: an upsert, also when it repeats what was before the last."""
        for number in (1, 2, 1, 3, 1):
            metadata = {"n": number}
            await store.save_remote_binding(self.build.binding(**ROUTED, metadata=metadata))
            assert (await self._listed(store))["task"]["metadata"] == metadata

    async def test_each_part_of_the_key_tells_bindings_apart(self, store: Any) -> None:
        """MAY, section 3: the key is trace, context and task; a missing context is none."""
        saved = [
            self.build.binding("a", **ROUTED),
            self.build.binding("b", **ROUTED),
            self.build.binding("a", **ROUTED, context_id=None),
            self.build.binding("a", **ROUTED, context_id="None"),
            self.build.binding("a", **ROUTED, trace_id="other"),
        ]
        for binding in saved:
            await store.save_remote_binding(binding)
        listed = [plain(b) for b in await store.list_bindings(router_session_id="router")]
        assert len(listed) == len(saved)
        assert all(plain(binding) in listed for binding in saved)

    async def test_a_router_lists_its_own_bindings(self, store: Any) -> None:
        """MUST, PenguiFlow 3.11: of every trace, and nobody else's."""
        await store.save_remote_binding(self.build.binding("mine", **ROUTED))
        await store.save_remote_binding(self.build.binding("far", trace_id="other", **ROUTED))
        await store.save_remote_binding(self.build.binding("theirs", router_session_id="other"))
        await store.save_remote_binding(self.build.binding("nobody's"))
        assert sorted(await self._listed(store)) == ["far", "mine"]

    async def test_a_binding_moves_with_its_router(self, store: Any) -> None:
        """SHOULD, section 3: an upsert leaves nothing where it was."""
        await store.save_remote_binding(self.build.binding(**ROUTED))
        moved = self.build.binding(router_session_id="other", remote_skill="search")
        await store.save_remote_binding(moved)
        assert await self._listed(store) == {}
        assert await store.find_binding(**QUERY) is None
        found = await store.find_binding(**QUERY | {"router_session_id": "other"})
        assert plain(found) == plain(moved)

    async def test_find_matches_router_agent_and_skill(self, store: Any) -> None:
        """MUST, PenguiFlow 3.11: all three."""
        await store.save_remote_binding(self.build.binding(**ROUTED))
        assert plain(await store.find_binding(**QUERY)) == plain(self.build.binding(**ROUTED))
        for part in ("router_session_id", "agent_url", "remote_skill"):
            assert await store.find_binding(**QUERY | {part: "another"}) is None, part

    async def test_find_never_crosses_tenants_or_users(self, store: Any) -> None:
        """MUST, PenguiFlow 3.11: who is asked for must be who it is."""
        owned = self.build.binding("owned", **ROUTED, tenant_id="acme", user_id="ada")
        await store.save_remote_binding(owned)
        for wrong in (
            {},
            {"tenant_id": "acme"},
            {"tenant_id": "acme", "user_id": "bob"},
            {"tenant_id": "other", "user_id": "ada"},
        ):
            assert await store.find_binding(**QUERY, **wrong) is None, wrong
        found = await store.find_binding(**QUERY, tenant_id="acme", user_id="ada")
        assert found.task_id == "owned"

    async def test_find_without_a_tenant_finds_what_nobody_owns(self, store: Any) -> None:
        """MUST, PenguiFlow 3.11: what somebody owns is not for everybody."""
        await store.save_remote_binding(self.build.binding("open", **ROUTED))
        assert await store.find_binding(**QUERY, tenant_id="other") is None
        assert (await store.find_binding(**QUERY)).task_id == "open"

    async def test_find_prefers_the_binding_saved_last(self, store: Any) -> None:
        """SHOULD, PenguiFlow 3.11: a conversation goes on where it was."""
        for name in ("a", "b", "c", "b"):
            await store.save_remote_binding(self.build.binding(name, **ROUTED))
        assert (await store.find_binding(**QUERY)).task_id == "b"

    async def test_find_prefers_the_same_after_a_restart(self, store: Any, restart: Reopen) -> None:
        """SHOULD, PenguiFlow 3.11: for the next router, too."""
        for name in ("a", "b", "c", "b"):
            await store.save_remote_binding(self.build.binding(name, **ROUTED))
        assert (await (await restart()).find_binding(**QUERY)).task_id == "b"

    async def test_a_terminal_binding_is_listed_but_not_found(self, store: Any) -> None:
        """MUST, PenguiFlow 3.11: it takes no further turns; what is left takes them."""
        for name in ("a", "b"):
            await store.save_remote_binding(self.build.binding(name, **ROUTED))
        await store.mark_binding_terminal(trace_id="trace", context_id="ctx", task_id="b")
        assert (await store.find_binding(**QUERY)).task_id == "a"
        listed = await self._listed(store)
        assert {n: b["is_terminal"] for n, b in listed.items()} == {"a": False, "b": True}

    async def test_a_terminal_binding_stays_so_after_a_restart(
        self, store: Any, restart: Reopen
    ) -> None:
        """MUST, PenguiFlow 3.11: it takes no further turns."""
        await store.save_remote_binding(self.build.binding(**ROUTED))
        assert await store.find_binding(**QUERY) is not None
        await store.mark_binding_terminal(trace_id="trace", context_id="ctx", task_id="task")
        again = await restart()
        assert await again.find_binding(**QUERY) is None
        [listed] = await again.list_bindings(router_session_id="router")
        assert listed.is_terminal is True

    async def test_a_binding_saved_as_terminal_is_not_found(self, store: Any) -> None:
        """MUST, PenguiFlow 3.11: however it became so."""
        await store.save_remote_binding(self.build.binding(**ROUTED))
        assert await store.find_binding(**QUERY) is not None
        await store.save_remote_binding(self.build.binding(**ROUTED, is_terminal=True))
        assert await store.find_binding(**QUERY) is None
        assert (await self._listed(store))["task"]["is_terminal"] is True

    async def test_marking_an_unknown_binding_changes_nothing(self, store: Any) -> None:
        """MUST, PenguiFlow 3.11: not an error, and no other's end."""
        await store.save_remote_binding(self.build.binding(**ROUTED))
        await store.mark_binding_terminal(trace_id="trace", context_id=None, task_id="task")
        await store.mark_binding_terminal(trace_id="other", context_id="ctx", task_id="task")
        assert plain(await store.find_binding(**QUERY)) == plain(self.build.binding(**ROUTED))
        assert list(await self._listed(store)) == ["task"]

    async def test_hostile_ids_never_collide(self, store: Any) -> None:
        """Beyond: an id is data."""
        for id_ in self.hostile_ids:
            await store.save_remote_binding(
                self.build.binding(id_, context_id=id_, router_session_id=id_, remote_skill=id_)
            )
        for id_ in self.hostile_ids:
            [listed] = await store.list_bindings(router_session_id=id_)
            assert (listed.task_id, listed.context_id) == (id_, id_)

    async def test_what_was_saved_may_be_changed_afterwards(self, store: Any) -> None:
        """Beyond: a binding changes by being saved."""
        binding = self.build.binding(**ROUTED, metadata={"tags": ["a"]})
        saved = plain(binding)
        await store.save_remote_binding(binding)
        scribble(binding)
        assert list((await self._listed(store)).values()) == [saved]

    async def test_what_was_loaded_may_be_changed(self, store: Any) -> None:
        """Beyond: one reader cannot change what another sees."""
        binding = self.build.binding(**ROUTED, metadata={"tags": ["a"]})
        saved = plain(binding)
        await store.save_remote_binding(binding)
        scribble(await store.find_binding(**QUERY))
        scribble(await store.list_bindings(router_session_id="router"))
        assert plain(await store.find_binding(**QUERY)) == saved

    def _full_binding(self) -> Any:
        return self.build.binding(
            **ROUTED,
            tenant_id="acme",
            user_id="ada",
            last_remote_task_id="remote-7",
            metadata={"nested": [{"n": 1}]},
        )

    async def _listed(self, store: Any) -> dict[str, Any]:
        bindings = list(await store.list_bindings(router_session_id="router"))
        by_task = {binding.task_id: plain(binding) for binding in bindings}
        assert len(by_task) == len(bindings), "a binding is listed twice"
        return by_task
