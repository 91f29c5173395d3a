"""State recovery for code that blocks: the backends that libraries for state recovery expect.

Where a save fails these raise, and say why.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from foldlog.blocking.bridge import OnThread, StoreThread
from foldlog.integrations.rh_agents.artifacts import ArtifactBackend
from foldlog.integrations.rh_agents.backend import StateBackend
from foldlog.integrations.rh_agents.codecs import checked
from foldlog.integrations.rh_agents.migrations import Migrations
from foldlog.opening import Connecting, Store, connect

B = TypeVar("B")
P = ParamSpec("P")
T = TypeVar("T")


class _Sync(OnThread, Generic[B]):
    """A backend on a store of its own, which `find` finds there."""

    def __init__(self, connecting: Connecting, find: Callable[[Store], B]) -> None:
        super().__init__(StoreThread(connecting))
        self._find = find


def _blocking(
    method: Callable[Concatenate[B, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Sync[B], P], T]:
    """A coroutine method as one that blocks, with its documentation."""

    @functools.wraps(method)
    def call(self: _Sync[B], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.call(lambda store: method(self._find(store), *args, **kwargs))

    return call


class SyncArtifactBackend(_Sync[ArtifactBackend]):
    """The artifacts of executions, with methods that block.

    It connects with the first call, and again with the next one if that failed. Any thread may use
    it, also within a running event loop, which it then blocks. Lives until `close` or the end of
    the process.

    Args:
        url: `nats://host:port`. None: `$FOLDLOG_URL`, or the embedded server.
        path: the embedded server's data directory. None: `$FOLDLOG_PATH`, else `./.foldlog`.
        namespace: whose data it is.
        codec: "pickle" takes whatever object there is, and runs whatever a stored pickle says.
        options: the other options of `foldlog.connect`.

    Raises:
        ConfigurationError: there is no such codec.
    """

    def __init__(
        self,
        url: str | None = None,
        path: str | os.PathLike[str] | None = None,
        namespace: str = "default",
        *,
        codec: str | None = None,
        **options: Any,
    ) -> None:
        found = None if codec is None else checked(codec)
        connecting = connect(url, path=path, namespace=namespace, **options)
        super().__init__(connecting, lambda store: ArtifactBackend(store, found))

    save_artifact: Final = _blocking(ArtifactBackend.save_artifact)
    load_artifact: Final = _blocking(ArtifactBackend.load_artifact)
    delete_artifact: Final = _blocking(ArtifactBackend.delete_artifact)
    exists: Final = _blocking(ArtifactBackend.exists)
    list_artifacts: Final = _blocking(ArtifactBackend.list_artifacts)
    get_size: Final = _blocking(ArtifactBackend.get_size)
    collect_garbage: Final = _blocking(ArtifactBackend.collect_garbage)


class SyncStateBackend(_Sync[StateBackend]):
    """The snapshots of executions, with methods that block.

    It connects with the first call, and again with the next one if that failed. Any thread may use
    it, also within a running event loop, which it then blocks. Lives until `close` or the end of
    the process.

    Args:
        url: `nats://host:port`. None: `$FOLDLOG_URL`, or the embedded server.
        path: the embedded server's data directory. None: `$FOLDLOG_PATH`, else `./.foldlog`.
        namespace: whose data it is.
        migrations: the steps that take older snapshots to this program's version.
        options: the other options of `foldlog.connect`.
    """

    def __init__(
        self,
        url: str | None = None,
        path: str | os.PathLike[str] | None = None,
        namespace: str = "default",
        *,
        migrations: Migrations | None = None,
        **options: Any,
    ) -> None:
        connecting = connect(url, path=path, namespace=namespace, **options)
        super().__init__(connecting, lambda store: StateBackend(store, migrations=migrations))

    save_state: Final = _blocking(StateBackend.save_state)
    load_state: Final = _blocking(StateBackend.load_state)
    list_states: Final = _blocking(StateBackend.list_states)
    delete_state: Final = _blocking(StateBackend.delete_state)
    update_state: Final = _blocking(StateBackend.update_state)
    exists: Final = _blocking(StateBackend.exists)
