"""Updates: what a session's tasks report (StateStore specification 2.11, section 8)."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncGenerator

from foldlog.envelope import Draft, Recorded, draft
from foldlog.models import StateUpdate, UpdateType
from foldlog.store.feed import Feed
from foldlog.store.guards import drafting, restoring
from foldlog.store.journal import Journal
from foldlog.store.payloads import OfTask, UpdateSaved, dump, enum_text, load, time_text
from foldlog.subjects import Subject, checked_id
from foldlog.views import Consistency
from foldlog_projections import updates


class Updates:
    """Updates by session, each `update_id` once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._feed = Feed(journal, updates, restore=_update, task_of=_task_id)

    async def save_update(self, update: StateUpdate) -> None:
        """Append an update. An `update_id` that the session has seen has no effect.

        Errors as `Tasks.save_task`.
        """
        await self._journal.append(self._drafted(update))

    @drafting("update")
    def _drafted(self, update: StateUpdate) -> tuple[Subject, list[Draft]]:
        return self._journal.subject(updates, update.session_id), [drafted(update)]

    async def list_updates(
        self,
        session_id: str,
        *,
        task_id: str | None = None,
        since_id: str | None = None,
        limit: int = 500,
        consistency: Consistency = "session",
    ) -> list[StateUpdate]:
        """Return a page of updates, ascending: see `foldlog.store.cursor.page`.

        Errors as `Events.load_history`.
        """
        return await self._feed.list(
            session_id, task_id=task_id, since_id=since_id, limit=limit, consistency=consistency
        )

    def watch_updates(
        self, session_id: str, since_id: str | None = None, task_id: str | None = None
    ) -> AsyncGenerator[StateUpdate]:
        """Yield the updates after `since_id` (from the first, if None or unknown), then new ones.

        Without gap or repeat, also across reconnects. Ends when the store is closed (StoreClosed)
        or the iterator is.
        """
        return self._feed.watch(session_id, since_id, task_id)


@drafting("update")
def drafted(update: StateUpdate) -> Draft:
    """Return the envelope that saves an update. Errors as `Updates.save_update`."""
    update_id = checked_id(update.update_id, "update_id")
    body = dump(
        UpdateSaved(
            session_id=update.session_id,
            task_id=checked_id(update.task_id, "task_id"),
            update_id=update_id,
            update_type=enum_text(update.update_type, UpdateType, "update_type"),
            content=update.content,
            created_at=time_text(update.created_at, "created_at"),
            trace_id=update.trace_id,
            step_index=update.step_index,
            total_steps=update.total_steps,
        ),
        "content",
    )
    return draft("update.saved", body, id=update_id)


@restoring
def _task_id(item: Recorded) -> str:
    return load(OfTask, item.payload).task_id


@restoring
def _update(item: Recorded) -> StateUpdate:
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
