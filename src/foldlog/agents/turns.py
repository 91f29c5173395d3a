"""One turn of an agent: it sees its updates at once; others see them when it completes."""

from __future__ import annotations

import copy
from collections.abc import Generator
from typing import Any, Generic, NamedTuple, Self, TypeVar

from pydantic import ValidationError

from foldlog.agents.errors import ShareRefused, TurnEnded
from foldlog.agents.ledger import Ledger, Loaded, Write
from foldlog.agents.models import AgentStateEntry, ShareToken
from foldlog.agents.states import Written, change_of, read, stored_in, written
from foldlog.errors import AppendConflict, NotFound, PayloadError
from foldlog.store.operation import Calls, operation
from foldlog.subjects import checked_id
from foldlog.views import Consistency
from foldlog_projections.agents.agentshares import Shared
from foldlog_projections.agents.agentstates import TURNED, Change

T = TypeVar("T")


class _Address(NamedTuple):
    scope: str
    key: str


class TurnStateContext:
    """The state of an agent during a turn, key by key, made by `store.agents.turn`.

        async with manager.turn("writer/1") as ctx:
            ...                             # completes with the block, unless that raises
        ctx = await manager.turn("writer/1")
        await ctx.complete()

    Keys are the agent's, or tokens from other agents. A key is loaded when it is first read, and
    stays as it was loaded until the turn ends.
    """

    def __init__(
        self,
        ledger: Ledger,
        scope: str,
        consistency: Consistency,
        expected: int | None = None,
        label: str = "",
    ) -> None:
        self.scope = scope
        self._calls: Calls = ledger.calls
        self._ledger = ledger
        self._consistency = consistency
        self._expected = expected
        self._label = label
        self._version: int | None = None
        self._ended = False
        self._begin()

    def _begin(self) -> None:
        self._loaded: dict[str, Loaded] = {}
        self._opened: dict[ShareToken, Shared] = {}
        self._updates: dict[str, Written | None] = {}
        """By key or token, in order; None: the key is to hold nothing."""
        self._shares: dict[str, Shared] = {}

    def __await__(self) -> Generator[Any, Any, Self]:
        return self.__aenter__().__await__()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        try:
            if kind is None:
                await self.complete()
        finally:
            self.end()

    @property
    def version(self) -> int | None:
        """The version that the turn has read, or has made by `complete`; None before any load."""
        return self._version

    async def get(self, key: str, model: type[T], *, default: T | None = None) -> T:
        """Return the state of a key, or what a token opens, as a copy that you may change.

        Where there is none: `default`, or else `model()`. That is stored only once it is updated.

        Args:
            key: the key, or a token.
            model: the type of the state.
            default: what is returned where there is no state.

        Raises:
            InvalidId: the scope or the key is empty.
            IncompatibleAgentState: another model or version wrote the state.
            ShareRefused: the token is unknown, revoked or expired.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            NotFound: there is no state, and the model needs values.
            AppendConflict: the agent's state is not at the version that the turn expects.
            TurnEnded: the turn has ended.
        """
        address = await self._address(key)
        stored = await self._stored(address)
        if stored is not None:
            return read(stored, model, *address)
        return _initial(model, address) if default is None else copy.deepcopy(default)

    def update(self, key: str, state: object) -> None:
        """Set the state of a key to what `state` is now, once the turn completes.

        Where the store redacts, the turn, too, sees the redacted state.

        Args:
            key: the key, or a token.
            state: a pydantic model, a dataclass, or data that the log can hold.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            ShareRefused: the token is read-only. Other refusals come when the turn completes.
            TurnEnded: the turn has ended.
        """
        redaction = self._ledger.redaction
        if isinstance(key, ShareToken):  # which is a secret, and opens any key of anybody
            self._set(key, written(state, "state", redaction))
        else:
            self._set(key, written(state, key, redaction, {"scope": self.scope, "key": key}))

    def delete(self, key: str) -> None:
        """Delete the state of a key, once the turn completes.

        Args:
            key: the key, or a token.

        Raises:
            InvalidId: the key is empty.
            ShareRefused: the token is read-only.
            TurnEnded: the turn has ended.
        """
        self._set(key, None)

    def reset(self, key: str) -> None:
        """Undo the turn's updates of a key.

        Args:
            key: the key, or a token.
        """
        self._check()
        self._drop(self._place(key))

    async def get_entry(self, key: str, model: type[T]) -> AgentStateEntry[T] | None:
        """Return a key with its version: 0 for what this turn has written; None for no state.

        Args:
            key: the key, or a token.
            model: the type of the state.

        Raises:
            InvalidId: the scope or the key is empty.
            IncompatibleAgentState: another model or version wrote the state.
            ShareRefused: the token is unknown, revoked or expired.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            TurnEnded: the turn has ended.
        """
        address = await self._address(key)
        stored = await self._stored(address)
        if stored is None:
            return None
        version = 0 if self._updated(address) else await self.version_of(key)
        return AgentStateEntry(*address, model, version, read(stored, model, *address))

    async def keys(self) -> list[str]:
        """Return the keys under which the agent has state, as the turn sees it.

        Raises:
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            TurnEnded: the turn has ended.
        """
        keys = dict.fromkeys((await self._load(self.scope)).entries)
        for key, state in self._updates.items():
            place = self._place(key)
            if isinstance(place, _Address) and place.scope == self.scope:
                keys.pop(place.key, None)
                if state is not None:
                    keys[place.key] = None
        return list(keys)

    async def version_of(self, key: str) -> int:
        """Return the version at which a key was written, as the turn has loaded it; 0 for none.

        Args:
            key: the key, or a token.

        Raises:
            InvalidId: the scope or the key is empty.
            IncompatibleAgentState: another model or version wrote the state.
            ShareRefused: the token is unknown, revoked or expired.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            TurnEnded: the turn has ended.
        """
        address = await self._address(key)
        held = (await self._load(address.scope)).entries.get(address.key)
        return 0 if held is None else held.version

    def of(self, model: type[T]) -> TypedStateContext[T]:
        """Return the keys that hold states of one model: a `StateContext[model]`.

        Args:
            model: the type of the states.
        """
        return TypedStateContext(self, model)

    def share(self, key: str, *, writable: bool = False, ttl: float | None = None) -> ShareToken:
        """Return a token that opens one of the agent's keys, once the turn completes.

        The key is shared, not its value: a holder of the token sees the state as it is then.

        Args:
            key: the key.
            writable: whether it may be updated by the token, too.
            ttl: seconds until the token expires. None: never.

        Raises:
            InvalidId: the key is empty.
            PayloadError: `ttl` is not positive.
            ShareRefused: the key is a token.
            TurnEnded: the turn has ended.
        """
        self._check()
        if isinstance(key, ShareToken):
            raise ShareRefused("what a token opens is shared by whom it belongs to")
        if ttl is not None and not ttl > 0:
            raise PayloadError("ttl", f"{ttl!r:.40} is not a positive number of seconds")
        token = ShareToken.new()
        shared = Shared(self.scope, checked_id(key, "key"), writable, float(ttl or 0))
        self._shares[token.digest] = shared
        return token

    @operation(writes=True, prefix="agents.")
    async def complete(self, label: str = "") -> None:
        """Store what has changed, all at once. A turn that has changed nothing stores nothing.

        Updates that follow are another turn, on the state as it is then.

        Args:
            label: what the turn is, for readers of its history; in place of that of `turn`.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendConflict: somebody has changed the scope since it was read. Nothing was stored.
            AppendFailed, LogUnavailable, LogCorrupt, ReadOnlyStore, StoreClosed: nothing is stored.
            AppendUnknown: it may have been stored; read before you try again.
            ShareRefused: a token does not open this, or no longer. Nothing was stored.
            TurnEnded: the turn has ended.
        """
        self._check()
        writes = await self._writes()
        if self._expected is not None and (writes or self._shares):
            await self._load(self.scope)  # also where only another's state is updated
        if writes or self._shares:
            label = self._redacted(label or self._label)
            versions = await self._ledger.commit(writes, list(self._shares.items()), label)
            self._version = versions.get(self.scope, self._version)
            self._expected = None
        self._begin()

    def end(self) -> None:
        """End the turn without what was not completed. Ending again does nothing."""
        self._ended = True
        self._begin()

    async def _writes(self) -> list[Write]:
        states: dict[_Address, Written | None] = {}
        for key, state in self._updates.items():
            if isinstance(key, ShareToken):  # it may have been revoked, or have expired, since
                self._opened.pop(key, None)
            address = await self._address(key)
            states.pop(address, None)
            states[address] = state
        changes: dict[str, list[Change]] = {}
        for address, state in states.items():
            change = change_of(await self._before(address), state, address.key)
            if change is not None:
                changes.setdefault(address.scope, []).append(change)
        return [
            Write(scope, loaded.version, made, is_first=not loaded.entries)
            for scope, made in changes.items()
            for loaded in [self._loaded[scope]]
        ]

    def _redacted(self, label: str) -> str:
        if not label:
            return label
        about, given = {"scope": self.scope}, {"label": label}
        found = self._ledger.redaction.alike("AgentStates.turn", TURNED, about, given)
        return str(found["label"])

    def _set(self, key: str, state: Written | None) -> None:
        self._check()
        place = self._place(key)
        if isinstance(key, ShareToken):
            if key in self._opened:
                _check_writable(self._opened[key])
        else:
            place = _Address(self.scope, checked_id(key, "key"))
        self._drop(place)
        self._updates[key] = state

    def _drop(self, place: _Address | ShareToken) -> None:
        self._updates = {k: v for k, v in self._updates.items() if self._place(k) != place}

    def _place(self, key: str) -> _Address | ShareToken:
        """The address of a key; of a token, if it was opened, else the token itself."""
        if not isinstance(key, ShareToken):
            return _Address(self.scope, key)
        shared = self._opened.get(key)
        return key if shared is None else _Address(shared.scope, shared.key)

    async def _address(self, key: str) -> _Address:
        self._check()
        if not isinstance(key, ShareToken):
            return _Address(self.scope, checked_id(key, "key"))
        if key not in self._opened:
            shared = self._shares.get(key.digest) or await self._ledger.opened_by(key.digest)
            if shared is None:
                raise ShareRefused("it is unknown, was revoked or has expired")
            if key in self._updates:
                _check_writable(shared)
            self._opened[key] = shared
        return _Address(self._opened[key].scope, self._opened[key].key)

    def _updated(self, address: _Address) -> list[Written | None]:
        """The updates of an address, the one that stands first."""
        return [v for k, v in reversed(self._updates.items()) if self._place(k) == address]

    async def _stored(self, address: _Address) -> Written | None:
        updated = self._updated(address)
        return updated[0] if updated else await self._before(address)

    async def _before(self, address: _Address) -> Written | None:
        entry = (await self._load(address.scope)).entries.get(address.key)
        return None if entry is None else stored_in(entry, *address)

    async def _load(self, scope: str) -> Loaded:
        loaded = self._loaded.get(scope)
        if loaded is None:
            loaded = await self._ledger.load(scope, self._consistency)
            if scope == self.scope:
                if self._expected not in (None, loaded.version):
                    # A view that lags is no conflict: the log itself is asked.
                    loaded = await self._ledger.load(scope, "strong")
                if self._expected is not None and self._expected != loaded.version:
                    raise AppendConflict(scope, self._expected, loaded.version)
                self._version = loaded.version
            loaded = self._loaded.setdefault(scope, loaded)
        return loaded

    def _check(self) -> None:
        if self._ended:
            raise TurnEnded(self.scope)


class TypedStateContext(Generic[T]):
    """The states of one model in a turn, made by `TurnStateContext.of`. Ends with the turn."""

    def __init__(self, turn: TurnStateContext, model: type[T]) -> None:
        self._turn = turn
        self._model = model

    async def get(self, key: str) -> T:
        """Return the state of a key, or what a token opens; `model()` where there is none.

        Args:
            key: the key, or a token.

        Raises:
            InvalidId: the scope or the key is empty.
            IncompatibleAgentState: another model or version wrote the state.
            ShareRefused: the token is unknown, revoked or expired.
            LogUnavailable, LogCorrupt, StoreClosed: no answer, an unreadable log, a closed store.
            NotFound: there is no state, and the model needs values.
            AppendConflict: the agent's state is not at the version that the turn expects.
            TurnEnded: the turn has ended.
        """
        return await self._turn.get(key, self._model)

    def update(self, key: str, state: T) -> None:
        """Set the state of a key to what `state` is now, once the turn completes.

        Args:
            key: the key, or a token.
            state: an object of the model.

        Raises:
            InvalidId, PayloadError, RedactionFailed: the input was refused.
            ShareRefused: the token is read-only.
            TurnEnded: the turn has ended.
        """
        self._turn.update(key, state)

    def delete(self, key: str) -> None:
        """Delete the state of a key, once the turn completes.

        Args:
            key: the key, or a token.

        Raises:
            InvalidId: the key is empty.
            ShareRefused: the token is read-only.
            TurnEnded: the turn has ended.
        """
        self._turn.delete(key)

    def reset(self, key: str) -> None:
        """Undo the turn's updates of a key.

        Args:
            key: the key, or a token.
        """
        self._turn.reset(key)

    def share(self, key: str, *, writable: bool = False, ttl: float | None = None) -> ShareToken:
        """Return a token that opens one of the agent's keys, once the turn completes.

        Args:
            key: the key.
            writable: whether it may be updated by the token, too.
            ttl: seconds until the token expires. None: never.

        Raises:
            InvalidId: the key is empty.
            PayloadError: `ttl` is not positive.
            ShareRefused: the key is a token.
            TurnEnded: the turn has ended.
        """
        return self._turn.share(key, writable=writable, ttl=ttl)


def _check_writable(shared: Shared) -> None:
    if not shared.writable:
        raise ShareRefused("it is read-only")


def _initial(model: type[T], address: _Address) -> T:
    try:
        return model()
    except (TypeError, ValidationError) as error:
        scope, key = address
        name = getattr(model, "__name__", str(model))
        raise NotFound(
            "state",
            key,
            f"{scope!r:.80} has none, and {name} has fields without a default: give default=",
        ) from error
