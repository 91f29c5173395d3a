"""State recovery for code that blocks: the same backends, with plain methods.

The names, arguments and results are those that libraries for state recovery expect of a backend,
so that an execution of theirs can be saved and loaded with these objects as they are. Their own
backends return False where a save failed; these raise, and say why.
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from foldlog.blocking.bridge import OnThread, StoreThread
from foldlog.opening import Store, connect
from foldlog.recovery.artifacts import ArtifactBackend
from foldlog.recovery.backend import StateBackend
from foldlog.recovery.codecs import checked
from foldlog.recovery.migrations import Migrations

B = TypeVar("B")
P = ParamSpec("P")
T = TypeVar("T")


class _Sync(OnThread, ABC, Generic[B]):
    """A backend on a store of its own."""

    def __init__(
        self,
        url: str | None,
        path: str | os.PathLike[str] | None,
        namespace: str,
        options: dict[str, Any],
    ) -> None:
        async def open_() -> Store:
            return await connect(url, path=path, namespace=namespace, **options)

        self._thread = StoreThread(open_)

    @abstractmethod
    def _backend(self, store: Store) -> B:
        """The backend whose methods these are."""


def _blocking(
    method: Callable[Concatenate[B, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Sync[B], P], T]:
    """A coroutine method as one that blocks, with its documentation."""

    @functools.wraps(method)
    def call(self: _Sync[B], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.call(lambda store: method(self._backend(store), *args, **kwargs))

    return call


class SyncArtifactBackend(_Sync[ArtifactBackend]):
    """An ArtifactBackend whose methods block.

    Connects with the first call, and again with the next one if that failed. It may be used by
    any thread, also from within a running event loop, which it then holds up. Lives until `close`
    or the end of the process.

    Args:
        url, path, namespace, options: as `foldlog.connect`.
        codec: as `ArtifactBackend.with_codec`. "pickle" takes whatever object there is, and runs
            whatever a stored pickle says.

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
        self._codec = None if codec is None else checked(codec)
        super().__init__(url, path, namespace, options)

    def _backend(self, store: Store) -> ArtifactBackend:
        artifacts = store.recovery.artifacts
        return artifacts if self._codec is None else artifacts.with_codec(self._codec)

    save_artifact = _blocking(ArtifactBackend.save_artifact)
    load_artifact = _blocking(ArtifactBackend.load_artifact)
    delete_artifact = _blocking(ArtifactBackend.delete_artifact)
    exists = _blocking(ArtifactBackend.exists)
    list_artifacts = _blocking(ArtifactBackend.list_artifacts)
    get_size = _blocking(ArtifactBackend.get_size)
    collect_garbage = _blocking(ArtifactBackend.collect_garbage)


class SyncStateBackend(_Sync[StateBackend]):
    """A StateBackend whose methods block: otherwise as SyncArtifactBackend.

    Args:
        url, path, namespace, options: as `foldlog.connect`.
        migrations: as `StateBackend.with_migrations`.
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
        self._migrations = migrations
        super().__init__(url, path, namespace, options)

    def _backend(self, store: Store) -> StateBackend:
        states = store.recovery
        return states if self._migrations is None else states.with_migrations(self._migrations)

    save_state = _blocking(StateBackend.save_state)
    load_state = _blocking(StateBackend.load_state)
    list_states = _blocking(StateBackend.list_states)
    delete_state = _blocking(StateBackend.delete_state)
    update_state = _blocking(StateBackend.update_state)
    exists = _blocking(StateBackend.exists)
    answer = _blocking(StateBackend.answer)
