"""AG-UI's threads: what a browser is shown of each when it comes back."""

from __future__ import annotations

import dataclasses
from typing import Final

from foldlog.integrations.required import not_installed

try:
    from agent_framework_ag_ui import AGUIThreadSnapshot
    from agent_framework_ag_ui._snapshots import _session_id_for_thread
except ModuleNotFoundError as _error:
    raise not_installed("ag-ui", _error) from _error

from foldlog.errors import shown
from foldlog.integrations.access import AnyStore, access_to
from foldlog.integrations.objects import Unreadable, read_as
from foldlog.opening import Store
from foldlog.subjects import checked_id
from foldlog_projections.memory import escaped, kind

_AG_UI: Final = "ag-ui:"


class FoldlogThreadSnapshotStore:
    """The latest snapshot of each AG-UI thread: `snapshot_store=` of an endpoint or an agent.

    It takes the place of `InMemoryAGUIThreadSnapshotStore`, for any number of processes. A snapshot
    is the memory of the session that the framework's agent has for the thread, and is cleared,
    erased and forked with it. The contract is `AGUIThreadSnapshotStore` of agent_framework_ag_ui.

    Args:
        store: an open store, or one of `foldlog.blocking.connect()`.
    """

    def __init__(self, store: AnyStore) -> None:
        self._do = access_to(store).acall

    async def save(self, *, scope: str, thread_id: str, snapshot: AGUIThreadSnapshot) -> None:
        """Store a thread's snapshot in place of the one before. Errors as `save_memory_state`.

        Raises:
            TypeError: `scope` or `thread_id` is no string.
        """
        key, state = _key(scope, thread_id), dataclasses.asdict(snapshot)
        await self._do(lambda store: store.save_memory_state(key, state))

    async def get(self, *, scope: str, thread_id: str) -> AGUIThreadSnapshot | None:
        """Return the latest snapshot of a thread that any process saved; None if there is none.

        Raises:
            InvalidId: `scope` or `thread_id` is empty. TypeError: it is no string.
            Unreadable: `redact=`, or another version, has made something else of it.
            LogUnavailable, LogCorrupt: the log did not answer, or cannot be read.
        """
        key = _key(scope, thread_id)
        found = await self._do(lambda store: store.load_memory_state(key, consistency="strong"))
        what = f"the snapshot of thread {shown(thread_id)}"
        if found is None:
            return None
        return read_as(lambda state: AGUIThreadSnapshot(**state), found, what, Unreadable)

    async def delete(self, *, scope: str, thread_id: str) -> bool:
        """Remove a thread's snapshots; False if there is none. Errors as `Store.erase`."""
        key = _key(scope, thread_id)

        async def delete(store: Store) -> bool:
            is_there = await store.load_memory_state(key, consistency="strong") is not None
            await store.erase(kind(key), overwrite=False)
            return is_there

        return await self._do(delete)

    async def clear(self, *, scope: str | None = None) -> None:
        """Remove the snapshots of a scope, or of all. It goes through the keys of all memories.

        Errors as `Store.erase`.
        """
        begin = _AG_UI if scope is None else f"{_AG_UI}{escaped(_checked(scope, 'scope'))}:"

        async def clear(store: Store) -> None:
            for key in await store.keys(kind):
                if key.keys[0].startswith(begin):
                    await store.erase(key, overwrite=False)

        await self._do(clear)


def _key(scope: str, thread_id: str) -> str:
    scope, thread_id = _checked(scope, "scope"), _checked(thread_id, "thread_id")
    session = _session_id_for_thread(scope=scope, thread_id=thread_id)
    return f"{_AG_UI}{escaped(scope)}:{escaped(session)}"


def _checked(part: str, name: str) -> str:
    if not isinstance(part, str):
        raise TypeError(f"{name} {shown(part)} is no string")
    return checked_id(part, name)
