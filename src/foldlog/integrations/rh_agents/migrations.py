"""Snapshots of earlier schema versions, taken to today's."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from foldlog.errors import FoldlogError, Misuse
from foldlog.integrations.rh_agents.models import SCHEMA_VERSION, StateSnapshot

Migrate = Callable[[StateSnapshot], StateSnapshot]


class IncompatibleState(FoldlogError):
    """A snapshot of another schema version, from which no migration leads to today's.

    Args:
        state_id: the state.
        version: the snapshot's version.
        current: the version that this program reads.
    """

    def __init__(self, state_id: str, version: str, current: str) -> None:
        super().__init__(
            f"state {state_id!r:.80} is of version {version}; this program reads {current}, and no "
            "migration leads there"
        )
        self.state_id = state_id
        self.version = version
        self.current = current


class Migrations:
    """The steps that lead from version to version. Should live as long as the program.

        migrations = Migrations("1.1.0")

        @migrations.step("1.0.0", "1.1.0")
        def rename(snapshot: StateSnapshot) -> StateSnapshot: ...

    Args:
        current: the version that this program writes and reads.
    """

    def __init__(self, current: str = SCHEMA_VERSION) -> None:
        self.current: Final = current
        self._steps: dict[str, dict[str, Migrate]] = {}

    def step(self, old: str, new: str) -> Callable[[Migrate], Migrate]:
        """Return a decorator for a function that takes a snapshot from version `old` to `new`.

        The function may change the snapshot it is given; its `version` is set afterwards.

        Args:
            old: the version before, as `major.minor.patch`.
            new: the version after.

        Raises:
            Misuse: there is such a step already, or it leads nowhere.
        """
        if old == new or new in self._steps.get(old, {}):
            raise Misuse(f"a migration from {old} to {new} is registered already, or leads nowhere")

        def register(migrate: Migrate) -> Migrate:
            self._steps.setdefault(old, {})[new] = migrate
            return migrate

        return register

    def migrate(self, snapshot: StateSnapshot) -> StateSnapshot:
        """Return the snapshot at the current version: by the fewest steps, or as it is.

        A compatible snapshot that no step leads on from stays as it is, with its version. What a
        step raises, propagates.

        Args:
            snapshot: the snapshot.

        Raises:
            IncompatibleState: no steps lead there.
        """
        path = self._path(snapshot.version)
        if path is None:
            if snapshot.is_compatible(self.current):
                return snapshot
            raise IncompatibleState(snapshot.state_id, snapshot.version, self.current)
        for new in path:
            migrate = self._steps[snapshot.version][new]
            snapshot = migrate(snapshot).model_copy(update={"version": new})
        return snapshot

    def _path(self, version: str) -> list[str] | None:
        paths: dict[str, list[str]] = {version: []}
        waiting = deque([version])
        while waiting:
            reached = waiting.popleft()
            if reached == self.current:
                return paths[reached]
            for new in self._steps.get(reached, {}):
                if new not in paths:
                    paths[new] = [*paths[reached], new]
                    waiting.append(new)
        return None
