"""The state manager: turns, entries, history, shares and exports."""

from __future__ import annotations

import functools
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final, Generic, TypeVar

from foldlog.agents.ledger import Commit, Ledger, Write
from foldlog.agents.models import (
    RUNTIME_SCOPE,
    AgentStateEntry,
    KeyChange,
    Scope,
    ShareToken,
    StateChange,
    StateVersion,
    scope_text,
)
from foldlog.agents.states import exported, imported, plain, read, replacing, stored_in
from foldlog.agents.turns import TurnStateContext
from foldlog.differences import ABSENT, differences
from foldlog.errors import AppendConflict, Misuse
from foldlog.store.operation import Calls, operation
from foldlog.store.primitives import Attempts
from foldlog.views import Consistency
from foldlog_projections.agents.agentstates import Entry

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")

_RUNTIME_KEY: Final = "state"


_operation: Final = functools.partial(operation, prefix="agents.")


class AgentStates(Generic[R]):
    """The states of a runtime's agents, made by `store.agents` or `create_manager`.

    Every call raises also where the store degrades: a turn that only seems to be complete is worse
    than none. Inside `store.atomic()` turns are stored with the block; until then their version is
    0.
    """

    def __init__(self, ledger: Ledger, runtime_state_type: type[R]) -> None:
        self._calls: Calls = ledger.calls
        self._ledger = ledger
        self._runtime_state_type = runtime_state_type

    def turn(
        self,
        scope: Scope,
        *,
        label: str = "",
        consistency: Consistency = "session",
        expected: int | None = None,
    ) -> TurnStateContext:
        """Return a turn, completed by its block: `async with manager.turn("writer/1") as ctx:`.

        If the block raises or is cancelled, nothing is stored. A turn that is cancelled while it
        completes may or may not have been stored. `await manager.turn(...)` gives a turn that the
        caller completes.

        Args:
            scope: the agent.
            label: what the turn is, for readers of the history.
            consistency: how fresh reads are. A turn on a stale state is never stored.
            expected: the version that the scope must be at. None: any.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendConflict: somebody has changed the scope since it was read. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; read before you try again.
            ShareRefused: a token does not open what the turn updates. Nothing was stored.
        """
        return TurnStateContext(self._ledger, scope_text(scope), consistency, expected, label)

    @_operation(encloses=True)
    async def run_turn(
        self,
        scope: Scope,
        body: Callable[[TurnStateContext], Awaitable[V]],
        *,
        label: str = "",
        attempts: int | None = None,
    ) -> V:
        """Run a turn, and again after each conflict; return what `body` returns.

        Args:
            scope: the agent.
            body: called with a new context each time; what else it does, it does again. What it
                raises is raised.
            label: what the turn is, for readers of the history.
            attempts: how often at most. None: until it is stored.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendConflict: somebody has changed the scope since it was read. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; read before you try again.
            ShareRefused: a token does not open what the turn updates. Nothing was stored.
        """
        if attempts is not None and attempts < 1:
            raise Misuse(f"attempts is at least 1, not {attempts}")
        contention, tried = Attempts(math.inf), 0
        while True:
            # A stale view would only conflict again.
            consistency: Consistency = "strong" if tried else "session"
            try:
                async with self.turn(scope, label=label, consistency=consistency) as ctx:
                    return await body(ctx)
            except AppendConflict as conflict:
                tried += 1
                if tried == attempts:
                    raise
                await contention.pause(conflict)

    @_operation()
    async def get_agent_state(
        self, scope: Scope, key: str, model: type[T], *, consistency: Consistency = "session"
    ) -> AgentStateEntry[T] | None:
        """Return one key of a scope with its version, or None.

        Args:
            scope: the agent.
            key: the key; or a token, which opens a key of another agent.
            model: the type of the state: a pydantic model, a dataclass, or `dict` and so on.
            consistency: how fresh: "eventual", "session" (has this store's own writes) or
                "strong" (has every acked write).

        Raises:
            InvalidId: the scope or the key is empty.
            IncompatibleAgentState: another model or version wrote the state.
            ShareRefused: the token is unknown, revoked or expired.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return await self.turn(scope, consistency=consistency).get_entry(key, model)

    @_operation(writes=True)
    async def set_agent_state(self, scope: Scope, state: AgentStateEntry[T]) -> AgentStateEntry[T]:
        """Store an entry, if its key is still at its version; return it with the new version.

        Args:
            scope: the agent.
            state: the entry, as `get_agent_state` returned it, with another state.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendConflict: somebody has changed the scope since it was read. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; read before you try again.
            ShareRefused: the token is read-only, unknown, revoked or expired.
        """
        async with self.turn(scope, consistency="strong") as ctx:
            actual = await ctx.version_of(state.key)
            if actual != state.version:
                raise AppendConflict(f"{ctx.scope} {state.key}", state.version, actual)
            before = ctx.version
            ctx.update(state.key, state.state)
            await ctx.complete()
        made = ctx.version
        now = await self.get_agent_state(scope, state.key, state.type_)
        if now is None or (made != before and now.version != made):
            return replace(state, version=made or state.version)  # others have written since
        return now

    @_operation(writes=True)
    async def delete(self, scope: Scope) -> None:
        """Delete all keys of a scope. Its history stays.

        Args:
            scope: the agent.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendConflict: somebody has changed the scope since it was read. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; read before you try again.
        """

        async def body(ctx: TurnStateContext) -> None:
            for key in await ctx.keys():
                ctx.delete(key)

        await self.run_turn(scope, body, label="deleted")

    @_operation()
    async def runtime_state(self) -> R:
        """Return the runtime's state; the model's defaults where there is none.

        Raises:
            IncompatibleAgentState: another model or version wrote the state.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return await self.turn(RUNTIME_SCOPE).get(_RUNTIME_KEY, self._runtime_state_type)

    @_operation(writes=True)
    async def set_runtime_state(self, state: R) -> None:
        """Store the runtime's state. The last one stands.

        Args:
            state: the state, of the model that the manager was made with.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendConflict: somebody has changed the scope since it was read. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; read before you try again.
        """

        async def body(ctx: TurnStateContext) -> None:
            ctx.update(_RUNTIME_KEY, state)

        await self.run_turn(RUNTIME_SCOPE, body)

    @_operation()
    async def scopes(self) -> list[str]:
        """Return the scopes that have had state, the runtime's included.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        return await self._ledger.scopes()

    @_operation(writes=True)
    async def erase(self, scope: Scope) -> None:
        """Erase a scope with all its history. Tokens that open it open nothing.

        Args:
            scope: the agent.

        Raises:
            InvalidId: the scope is empty.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: some may remain; erase again.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        await self._ledger.remove(scope_text(scope))

    @_operation(writes=True)
    async def revoke(self, token: ShareToken) -> None:
        """Revoke a token: it opens nothing from when this returns. Any holder may revoke it.

        Args:
            token: the token.

        Raises:
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown: it may still open; revoking
                again is safe.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        await self._ledger.revoke(token.digest)

    async def watch(self, scope: Scope, *, after: int | None = None) -> AsyncGenerator[StateChange]:
        """Yield each turn that completes, with what it has changed. It waits out an outage.

        It never ends by itself: use `contextlib.aclosing`.

        Args:
            scope: the agent.
            after: begin with the turns after this version. None: with the next one.

        Raises:
            InvalidId: the scope is empty.
            LogCorrupt, StoreClosed: the log cannot be read, or is closed.
        """
        text = scope_text(scope)
        async with aclosing(self._ledger.watch(text, after)) as commits:
            async for commit in commits:
                yield StateChange(text, commit.version, commit.ts, commit.label, _changes(commit))

    @_operation()
    async def history(self, scope: Scope) -> list[StateVersion]:
        """Return the turns that have changed a scope, in order. It reads all of them.

        Args:
            scope: the agent.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        text = scope_text(scope)
        async with aclosing(self._ledger.commits(text)) as commits:
            return [
                StateVersion(text, c.version, c.ts, c.label, tuple(c.keys)) async for c in commits
            ]

    @_operation()
    async def get_agent_states(
        self, scope: Scope, model: type[T], *, version: int | None = None
    ) -> dict[str, AgentStateEntry[T]]:
        """Return all keys of a scope whose states are of one model, by key.

        Args:
            scope: the agent.
            model: the type of the states.
            version: as they were when the scope stood there, which reads its history. None: as of
                now.

        Raises:
            InvalidId: the scope is empty.
            IncompatibleAgentState: another model or version wrote the state.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        text = scope_text(scope)
        entries: Mapping[str, Entry]
        if version is None:
            entries = (await self._ledger.load(text, "strong")).entries
        else:
            [entries] = await self._at(text, version)
        return {
            key: AgentStateEntry(
                text, key, model, entry.version, read(stored_in(entry, text, key), model, text, key)
            )
            for key, entry in entries.items()
        }

    @_operation()
    async def compare(self, scope: Scope, old: int, new: int) -> tuple[KeyChange, ...]:
        """Return what differs between two versions of a scope, by key.

        Args:
            scope: the agent.
            old: the one version.
            new: the other version.

        Raises:
            InvalidId: an id is empty.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        first, last = await self._at(scope_text(scope), old, new)
        keys = {
            key: (first.get(key), last.get(key))
            for key in dict.fromkeys([*first, *last])
            if first.get(key) != last.get(key)
        }
        return _changes(Commit(new, 0.0, "", keys))

    @property
    def is_exportable(self) -> bool:
        """True: it has `dump_state` and `load_state`."""
        return True

    @_operation()
    async def dump_state(self) -> dict[str, Any]:
        """Return all states of one moment, by scope and key, as what JSON holds.

        Each comes with its model's name and version. One that JSON cannot hold exactly, or whose
        model says `state_exportable = False`, comes with an empty state.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
        """
        dump = {}
        moment = await self._ledger.moment()
        for scope in await self._ledger.scopes():
            version, entries = await self._ledger.load(scope, "strong")
            if version > moment:
                # A turn has come in between. It may have changed a scope that was looked at before.
                [entries] = await self._at(scope, moment)
            if entries:
                dump[scope] = exported(scope, entries)
        return dump

    @_operation(writes=True)
    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Make the states of a dump all there are, at once. Those that came empty stay as they are.

        Args:
            state: what `dump_state` returned.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendConflict: somebody has changed the scope since it was read. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; read before you try again.
        """
        states = imported(state, self._ledger.redaction)
        writes = []
        for scope in dict.fromkeys([*await self._ledger.scopes(), *states]):
            loaded = await self._ledger.load(scope_text(scope), "strong")
            wanted = states.get(scope, {})
            kept = set(state.get(scope, {})) - set(wanted)
            changes = replacing(scope, loaded.entries, wanted, kept)
            if changes:
                is_first = not loaded.entries
                writes.append(Write(scope, loaded.version, changes, is_first=is_first))
        if writes:
            await self._ledger.commit(writes, [], "loaded")

    async def _at(self, scope: str, *versions: int) -> list[dict[str, Entry]]:
        """The entries of a scope at each of some versions."""
        found: list[dict[str, Entry]] = [{} for _ in versions]
        async with aclosing(self._ledger.commits(scope)) as commits:
            async for commit in commits:
                for version, entries in zip(versions, found, strict=True):
                    if commit.version > version:
                        continue
                    for key, (_, after) in commit.keys.items():
                        if after is None:
                            entries.pop(key, None)
                        else:
                            entries[key] = after
        return found


def _changes(commit: Commit) -> tuple[KeyChange, ...]:
    changes = []
    for key, (before, after) in commit.keys.items():
        entry = after or before
        old, new = plain(before), plain(after)
        # A map that comes or goes does so field by field.
        left = old if before else {} if isinstance(new, dict) else ABSENT
        right = new if after else {} if isinstance(old, dict) else ABSENT
        found = tuple(differences(left, right, "state"))
        changes.append(KeyChange(key, entry.type if entry else "", old, new, found))
    return tuple(changes)
