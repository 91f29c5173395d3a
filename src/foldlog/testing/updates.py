"""`save_update` and `list_updates`: what a session's tasks report."""

from __future__ import annotations

from typing import Any

from foldlog.testing.base import Reopen
from foldlog.testing.cursors import CursorContract
from foldlog.testing.exact import plain, same
from foldlog.testing.values import JSON_VALUES, nested


class UpdatesContract(CursorContract):
    """Append-only, once per `update_id`, read by cursor."""

    save_name = "save_update"
    list_name = "list_updates"
    id_name = "update_id"

    def item(self, id_: str, session_id: str = "session", **fields: Any) -> Any:
        """Return an update `id_` of `session_id`; `fields` override."""
        return self.build.update(id_, session_id, **fields)

    async def test_an_update_comes_back_as_it_was(self, store: Any) -> None:
        """MUST, StateUpdate."""
        saved = self._full_update()
        await store.save_update(saved)
        [loaded] = await store.list_updates("session")
        assert isinstance(loaded, self.models.StateUpdate)
        assert loaded.update_type is self.models.UpdateType.TOOL_CALL
        assert same(plain(loaded), plain(saved))

    async def test_an_update_survives_a_restart(self, store: Any, restart: Reopen) -> None:
        """MUST, Integration Points: backfills after a restart."""
        saved = self._full_update()
        await store.save_update(saved)
        [loaded] = await (await restart()).list_updates("session")
        assert same(plain(loaded), plain(saved))

    async def test_any_content_is_held(self, store: Any) -> None:
        """MUST, StateUpdate: the content is dynamic."""
        contents = [*JSON_VALUES, *map(nested, JSON_VALUES)]
        for number, content in enumerate(contents):
            await store.save_update(self.build.update(f"u{number}", content=content))
        listed = [plain(update.content) for update in await store.list_updates("session")]
        assert len(listed) == len(contents)
        inexact = [
            content
            for content, found in zip(contents, listed, strict=True)
            if not same(found, content)
        ]
        assert inexact == []

    async def test_every_type_is_held(self, store: Any) -> None:
        """MUST, UpdateType."""
        for kind in self.models.UpdateType:
            await store.save_update(self.build.update(kind.value, update_type=kind))
        listed = await store.list_updates("session")
        assert [update.update_type for update in listed] == list(self.models.UpdateType)

    def _full_update(self) -> Any:
        return self.build.update(
            "update-1",
            trace_id="trace",
            update_type=self.models.UpdateType.TOOL_CALL,
            content={"tool": "search", "args": [1, None]},
            step_index=0,
            total_steps=3,
        )
