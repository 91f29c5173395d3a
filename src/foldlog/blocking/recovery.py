"""State recovery for code that blocks: the same backends, with plain methods.

The names, arguments and results are those that libraries for state recovery expect of a backend,
so that an execution of theirs can be saved and loaded with these objects as they are.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from foldlog.blocking.bridge import StoreThread
from foldlog.opening import Store, connect
from foldlog.recovery.artifacts import GARBAGE_SECONDS, ArtifactBackend, Garbage
from foldlog.recovery.backend import StateBackend
from foldlog.recovery.codecs import checked
from foldlog.recovery.migrations import Migrations
from foldlog.recovery.models import StateSnapshot, StateStatus

T = TypeVar("T")


class _Sync:
    """What both backends do with their store."""

    def __init__(self, store: StoreThread) -> None:
        self._blocking = store

    def close(self) -> None:
        """Let go of the store, when the calls under way have ended. Idempotent.

        Raises:
            FoldlogError: closing it failed.
        """
        self._blocking.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class SyncArtifactBackend(_Sync):
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
        super().__init__(StoreThread(_opener(url, path, namespace, options)))

    def save_artifact(self, artifact_id: str, artifact: Any) -> bool:
        """See `ArtifactBackend.save_artifact`."""
        return self._call(lambda artifacts: artifacts.save_artifact(artifact_id, artifact))

    def load_artifact(self, artifact_id: str) -> Any | None:
        """See `ArtifactBackend.load_artifact`."""
        return self._call(lambda artifacts: artifacts.load_artifact(artifact_id))

    def delete_artifact(self, artifact_id: str) -> bool:
        """See `ArtifactBackend.delete_artifact`."""
        return self._call(lambda artifacts: artifacts.delete_artifact(artifact_id))

    def exists(self, artifact_id: str) -> bool:
        """See `ArtifactBackend.exists`."""
        return self._call(lambda artifacts: artifacts.exists(artifact_id))

    def collect_garbage(self, *, older_than: float = GARBAGE_SECONDS) -> Garbage:
        """See `ArtifactBackend.collect_garbage`."""
        return self._call(lambda artifacts: artifacts.collect_garbage(older_than=older_than))

    def _call(self, use: Callable[[ArtifactBackend], Coroutine[Any, Any, T]]) -> T:
        def on(store: Store) -> Coroutine[Any, Any, T]:
            artifacts = store.recovery.artifacts
            return use(artifacts if self._codec is None else artifacts.with_codec(self._codec))

        return self._blocking.call(on)


class SyncStateBackend(_Sync):
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
        super().__init__(StoreThread(_opener(url, path, namespace, options)))

    def save_state(self, snapshot: StateSnapshot) -> bool:
        """See `StateBackend.save_state`."""
        return self._call(lambda states: states.save_state(snapshot))

    def load_state(self, state_id: str) -> StateSnapshot | None:
        """See `StateBackend.load_state`."""
        return self._call(lambda states: states.load_state(state_id))

    def list_states(
        self,
        tags: list[str] | None = None,
        status: StateStatus | None = None,
        pipeline_name: str | None = None,
        limit: int = 100,
        parent_state_id: str | None = None,
    ) -> list[StateSnapshot]:
        """See `StateBackend.list_states`."""
        return self._call(
            lambda states: states.list_states(tags, status, pipeline_name, limit, parent_state_id)
        )

    def delete_state(self, state_id: str) -> bool:
        """See `StateBackend.delete_state`."""
        return self._call(lambda states: states.delete_state(state_id))

    def update_state(self, snapshot: StateSnapshot) -> bool:
        """See `StateBackend.update_state`."""
        return self._call(lambda states: states.update_state(snapshot))

    def answer(self, state_id: str, address: str, value: Any) -> bool:
        """See `StateBackend.answer`."""
        return self._call(lambda states: states.answer(state_id, address, value))

    def _call(self, use: Callable[[StateBackend], Coroutine[Any, Any, T]]) -> T:
        def on(store: Store) -> Coroutine[Any, Any, T]:
            states = store.recovery
            return use(
                states if self._migrations is None else states.with_migrations(self._migrations)
            )

        return self._blocking.call(on)


def _opener(
    url: str | None,
    path: str | os.PathLike[str] | None,
    namespace: str,
    options: dict[str, Any],
) -> Callable[[], Awaitable[Store]]:
    async def open_() -> Store:
        return await connect(url, path=path, namespace=namespace, **options)

    return open_
