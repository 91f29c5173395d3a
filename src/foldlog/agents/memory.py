"""State in this process's memory: the baseline, and what other backends are compared with."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from foldlog.agents.backend import Commit, Loaded, Write
from foldlog.errors import AppendConflict
from foldlog.store.redaction import Redaction
from foldlog.views import Consistency
from foldlog_projections.agentshares import Shared
from foldlog_projections.agentstates import Change, Entry

HISTORY: Final = 1000
"""How many turns of each scope are remembered; the oldest stands for all before it, too."""


class MemoryBackend:
    """Scopes in dicts. Lasts as long as the object; whoever shares it shares the state."""

    redaction: Final = Redaction()

    def __init__(self) -> None:
        self._last = 0
        self._states: dict[str, Loaded] = {}
        self._commits: dict[str, deque[Commit]] = {}
        self._shares: dict[str, tuple[Shared, float]] = {}
        self._watchers: dict[str, set[asyncio.Event]] = {}

    async def load(self, scope: str, consistency: Consistency) -> Loaded:
        """See the protocol. Always as of now."""
        return self._state(scope)

    async def commit(
        self, writes: Sequence[Write], shares: Sequence[tuple[str, Shared]], label: str
    ) -> dict[str, int]:
        """See the protocol."""
        # A log is never reached without giving way; neither is this one, so that code which only
        # works when nobody comes in between fails here, too.
        await asyncio.sleep(0)
        for write in writes:
            actual = self._state(write.scope).version
            if write.expected != actual:
                raise AppendConflict(write.scope, write.expected, actual)
        now = time.time()
        if shares:
            # Of what has expired nobody may ever ask again.
            open_ = {d: held for d, held in self._shares.items() if not _has_expired(*held, now)}
            self._shares = {**open_, **{digest: (shared, now) for digest, shared in shares}}
        return {write.scope: self._store(write, now, label) for write in writes}

    async def opened_by(self, digest: str) -> Shared | None:
        """See the protocol."""
        shared, since = self._shares.get(digest, (None, 0.0))
        if shared is None or _has_expired(shared, since, time.time()):
            return None
        return shared

    async def revoke(self, digest: str) -> None:
        """See the protocol."""
        self._shares.pop(digest, None)

    async def moment(self) -> int:
        """See the protocol."""
        return self._last

    async def scopes(self) -> list[str]:
        """See the protocol."""
        return list(self._states)

    async def commits(self, scope: str) -> AsyncGenerator[Commit]:
        """See the protocol. The last `HISTORY` of them."""
        for commit in list(self._commits.get(scope, ())):
            yield commit

    async def watch(self, scope: str, since: int | None) -> AsyncGenerator[Commit]:
        """See the protocol."""
        last = self._state(scope).version if since is None else since
        wake = asyncio.Event()
        self._watchers.setdefault(scope, set()).add(wake)
        try:
            while True:
                wake.clear()
                for commit in [c for c in self._commits.get(scope, ()) if c.version > last]:
                    last = commit.version
                    yield commit
                await wake.wait()
        finally:
            self._watchers[scope].discard(wake)

    def _state(self, scope: str) -> Loaded:
        return self._states.get(scope) or Loaded(0, {})

    def _store(self, write: Write, now: float, label: str) -> int:
        self._last += 1
        before = self._state(write.scope).entries
        after = {**before}
        for change in write.changes:
            changed = _changed(before.get(change.key), change, self._last, now)
            if changed is None:
                after.pop(change.key, None)
            else:
                after[change.key] = changed
        keys = {c.key: (before.get(c.key), after.get(c.key)) for c in write.changes}
        self._states[write.scope] = Loaded(self._last, after)
        commits = self._commits.setdefault(write.scope, deque())
        commits.append(Commit(self._last, now, label, keys))
        if len(commits) > HISTORY:
            first, second = commits.popleft(), commits.popleft()
            commits.appendleft(_joined(first, second))
        for wake in self._watchers.get(write.scope, ()):
            wake.set()
        return self._last


def _has_expired(shared: Shared, since: float, now: float) -> bool:
    return bool(shared.ttl) and since + shared.ttl <= now


def _joined(first: Commit, second: Commit) -> Commit:
    """The second of two turns, as if it had done what both did."""
    keys = dict(first.keys)
    for key, (before, after) in second.keys.items():
        keys[key] = (keys[key][0] if key in keys else before, after)
    return second._replace(keys=keys)


def _changed(entry: Entry | None, change: Change, version: int, now: float) -> Entry | None:
    if change.gone:
        return None
    return (entry or Entry("", 1, False, 0, 0.0)).followed_by(change, version, now)
