"""Updates: what a session's tasks report (StateStore specification 2.11, section 8)."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator

from foldlog.envelope import Draft, Recorded
from foldlog.models import StateUpdate, UpdateType
from foldlog.store.feed import list_feed, watch_feed
from foldlog.store.guards import drafting, restoring
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import enum_text, load, time_text
from foldlog.store.primitives import Primitives
from foldlog.subjects import Subject, checked_id
from foldlog.views import Consistency
from foldlog_projections import updates
from foldlog_projections.updates import UpdateSaved


class Updates(Primitives):
    """Updates by session, each `update_id` once."""

    @operation(nothing, writes=True)
    async def save_update(self, update: StateUpdate) -> None:
        """Append an update. An `update_id` that the session has seen has no effect.

        Raises:
            InvalidId: the session, task or update id is empty. Nothing was appended.
            PayloadError: a part cannot be held; its path begins with the field. Nothing was
                appended.
            AppendFailed, LogUnavailable, AppendUnknown: see `foldlog.errors`.
        """
        await self.append_drafts(self._update_drafted(update))

    save_task_update = save_update

    @operation(list)
    async def list_updates(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
        consistency: Consistency = "session",
    ) -> list[StateUpdate]:
        """Return a page of a session's updates, oldest first.

        Args:
            task_id: only those of this task.
            since_id: the first `limit` updates after this `update_id`; so paging loses nothing.
                None, or an id that the session has not seen: the last `limit` updates.
            limit: how many at most; below 1, none.

        Raises:
            InvalidId: the session id is empty.
            PayloadError: `limit` is no integer, or a cursor no string.
            LogUnavailable, LogCorrupt: they could not be read whole.
        """
        return await list_feed(
            self,
            updates.kind,
            restored_update,
            session_id,
            task_id=task_id,
            since_id=since_id,
            limit=limit,
            consistency=consistency,
        )

    list_task_updates = list_updates

    def watch_updates(
        self, session_id: str, since_id: str | None = None, task_id: str | None = None
    ) -> AsyncGenerator[StateUpdate]:
        """Yield the updates after `since_id` (from the first, if None or unknown), then new ones.

        Without gap or repeat, also across reconnects. Ends when the store is closed (StoreClosed)
        or the iterator is.
        """
        return watch_feed(self, updates.kind, restored_update, session_id, since_id, task_id)

    @drafting("update")
    def _update_drafted(self, update: StateUpdate) -> tuple[Subject, list[Draft]]:
        subject = self.subject(updates.kind, update.session_id)
        key, record = updates.kind(update.session_id), recorded_update(update)
        return subject, [self.drafted("save_update", key, record)]


@drafting("update")
def recorded_update(update: StateUpdate) -> UpdateSaved:
    """The record that saves an update. Errors as `Updates.save_update`."""
    update_id = checked_id(update.update_id, "update_id")
    return UpdateSaved(
        session_id=update.session_id,
        task_id=checked_id(update.task_id, "task_id"),
        update_id=update_id,
        update_type=enum_text(update.update_type, UpdateType, "update_type"),
        content=update.content,
        created_at=time_text(update.created_at, "created_at"),
        trace_id=update.trace_id,
        step_index=update.step_index,
        total_steps=update.total_steps,
    )


@restoring
def restored_update(item: Recorded) -> StateUpdate:
    """The update that an envelope holds: a new object."""
    saved = load(UpdateSaved, item.payload)
    return StateUpdate.model_construct(
        session_id=saved.session_id,
        task_id=saved.task_id,
        trace_id=saved.trace_id,
        update_id=saved.update_id,
        update_type=UpdateType(saved.update_type),
        content=saved.content,
        step_index=saved.step_index,
        total_steps=saved.total_steps,
        created_at=dt.datetime.fromisoformat(saved.created_at),
    )
