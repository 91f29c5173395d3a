"""Which views belong to a session, of those whose keys alone do not tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from foldlog.envelope import Draft
from foldlog.errors import LogCorrupt, LogUnavailable
from foldlog.kind import Key
from foldlog.log.port import Append
from foldlog.store.core import Capability, Core
from foldlog.store.operation import nothing, operation
from foldlog.store.payloads import encode
from foldlog.subjects import Subject, checked_id
from foldlog_projections import belongings
from foldlog_projections.belongings import Belonging


class Belongings(Capability):
    """Enters views in the lists of the sessions that they belong to."""

    @operation(nothing, writes=True)
    async def belong(self, session_id: str, key: Key[Any]) -> None:
        """Make a view part of a session: clearing or erasing the session removes it.

        Call it before the first save. Repeating it is free while the session is in memory. It acts
        at once, also inside `atomic()`. A view may be part of several sessions; the first one that
        is cleared removes it.

        Args:
            session_id: the session.
            key: the view: `kind(*keys)`.

        Raises:
            InvalidId: the session id is empty.
            ConfigurationError: the store does not know the kind.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: it may not be part of the
                session yet; calling again is safe.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        self._core.subject_of(key)  # refuses an unknown kind
        await add_belongings(self._core, session_id, key)


async def add_belongings(core: Core, session_id: str | None, *keys: Key[Any]) -> None:
    """Have views belong to a session, if one is named. Errors as `Log.append`."""
    if session_id is None:
        return
    checked_id(session_id, "session_id")
    listed = (await core.read(belongings.kind, session_id)).state
    appends = [_listing(core, session_id, key) for key in keys if _entry(key) not in listed.views]
    if appends:
        drafts = tuple(draft for _, drafts in appends for draft in drafts)
        await core.append_at_once([Append(appends[0][0], drafts)])


async def append_of_session(
    core: Core, session_id: str | None, key: Key[Any], *appends: tuple[Subject, Sequence[Draft]]
) -> None:
    """Append as `append_drafts`, and have the view belong to the session if one is named.

    A later save costs nothing more while the session's list is in memory.
    """
    if session_id is None:
        await core.append_drafts(*appends)
        return
    # Nothing is awaited before the append: saves keep their order.
    subject = core.subject(belongings.kind, checked_id(session_id, "session_id"))
    if _lists(core, subject, key):
        await core.append_drafts(*appends)
    else:
        await core.append_drafts(*appends, before=[_listing(core, session_id, key)])

    async def look_again() -> None:
        # A clearing may have come in between.
        if core.hot_views.current(subject) is None or not _lists(core, subject, key):
            await _look_again(core, session_id, key)

    await core.once_stored(look_again)


async def _look_again(core: Core, session_id: str, key: Key[Any]) -> None:
    """Read the list, which may have been cleared meanwhile, and keep it in memory."""
    try:
        folded = await core.read(belongings.kind, session_id)
        if _entry(key) not in folded.state.views:
            await core.append_drafts(_listing(core, session_id, key))
    except (LogUnavailable, LogCorrupt):
        return  # what was saved is saved; the next save looks again


def _lists(core: Core, subject: Subject, key: Key[Any]) -> bool:
    view = core.hot_views.peek(belongings.kind, subject)
    return view is not None and _entry(key) in view.folded.state.views


def _listing(core: Core, session_id: str, key: Key[Any]) -> tuple[Subject, list[Draft]]:
    return (
        core.subject(belongings.kind, session_id),
        [encode(belongings.kind, _entry(key))],
    )


def owner_entered(key: Key[Any]) -> str | None:
    """Return the session in whose list a view is entered, for its keys do not tell it otherwise."""
    return key.kind.session_of(key.keys) if callable(key.kind.owner) else None


def _entry(key: Key[Any]) -> Belonging:
    return Belonging(key.kind.name, key.keys)
