"""One turn of an agent: what it updates it sees at once, and everybody else when it completes."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import msgspec
from pydantic import BaseModel, ValidationError

from foldlog.agents.errors import ShareRefused, StateAbsent, TurnEnded
from foldlog.agents.evolution import Written, read, stored_in, written
from foldlog.agents.ledger import Ledger, Loaded, Write
from foldlog.agents.models import AgentStateEntry, ShareToken
from foldlog.errors import AppendConflict, PayloadError
from foldlog.subjects import checked_id
from foldlog.views import Consistency
from foldlog_projections.agentshares import Shared
from foldlog_projections.agentstates import TURNED, Change
from foldlog_projections.delta import difference

T = TypeVar("T", bound=BaseModel)

_native = msgspec.msgpack.Decoder()
_encode = msgspec.msgpack.Encoder().encode


class _Address(NamedTuple):
    scope: str
    key: str


class _Update(NamedTuple):
    """What a key is to hold, None for nothing, and the token by which it was updated."""

    state: Written | None
    token: ShareToken | None


class TurnStateContext:
    """What an agent has of its state during a turn. Made by `StateManager.turn`, and ends with it.

    Keys are the agent's own, or tokens that others have given it. Nothing is loaded before it is
    asked for, and what was loaded stays as it was until the turn ends.
    """

    def __init__(
        self, backend: Ledger, scope: str, consistency: Consistency, expected: int | None
    ) -> None:
        self.scope = scope
        self._backend = backend
        self._consistency = consistency
        self._expected = expected
        self._loaded: dict[str, Loaded] = {}
        self._opened: dict[ShareToken, Shared] = {}
        self._updates: dict[_Address | ShareToken, _Update] = {}
        self._shares: dict[str, Shared] = {}
        self._version: int | None = None
        self._ended = False

    @property
    def version(self) -> int | None:
        """The log position at which the agent's state stands: what the turn was begun on, and
        after it what it has made. None while nothing was loaded.
        """
        return self._version

    async def get(self, key: str, model: type[T], *, default: T | None = None) -> T:
        """Return the state of a key, or what a token opens: the caller's own object.

        Where there is none: `default`, or else the model with its defaults. That is stored only
        once it is updated.

        Raises:
            StateAbsent: there is none, and the model needs values.
            IncompatibleAgentState: another model or version wrote it.
            ShareRefused: the token is unknown, revoked or has expired.
            AppendConflict: the agent's state is not at the version that the turn expects.
            InvalidId: the key is empty. LogUnavailable, LogCorrupt: it could not be read.
        """
        address = await self._address(key)
        stored = await self._stored(address)
        if stored is not None:
            return read(stored, model, *address)
        return _initial(model, address) if default is None else default.model_copy(deep=True)

    def update(self, key: str, state: BaseModel) -> None:
        """Have a key hold this state as it is now, once the turn completes.

        Where the store redacts, that is what its `redact=` makes of the state, for the turn, too.

        Raises:
            PayloadError: a part cannot be held. InvalidId: the key is empty.
            RedactionFailed: `redact=` failed, or made something of it that is not of its model.
            ShareRefused: the token is read-only. Other refusals come when the turn completes.
        """
        redaction = self._backend.redaction
        if isinstance(key, ShareToken):  # which is a secret, and leads to whatever it leads to
            self._set(key, written(state, "state", redaction))
        else:
            self._set(key, written(state, key, redaction, {"scope": self.scope, "key": key}))

    def delete(self, key: str) -> None:
        """Have a key hold nothing, once the turn completes. Errors as `update`."""
        self._set(key, None)

    def reset(self, key: str) -> None:
        """Go back to what the key held when the turn began."""
        self._check()
        self._updates.pop(self._known_address(key), None)

    async def get_entry(self, key: str, model: type[T]) -> AgentStateEntry[T] | None:
        """Return a key with its version: 0 for what this turn has written. Errors as `get`."""
        address = await self._address(key)
        stored = await self._stored(address)
        if stored is None:
            return None
        version = 0 if address in self._updates else await self.version_of(key)
        return AgentStateEntry(*address, model, version, read(stored, model, *address))

    async def version_of(self, key: str) -> int:
        """Return the log position at which a key was written, as the turn has loaded it.

        0 where nothing is stored. Errors as `get`.
        """
        address = await self._address(key)
        held = (await self._load(address.scope)).entries.get(address.key)
        return 0 if held is None else held.version

    def of(self, model: type[T]) -> TypedStateContext[T]:
        """Return the keys that hold states of this model: a `StateContext[model]`."""
        return TypedStateContext(self, model)

    def share(self, key: str, *, writable: bool = False, ttl: float | None = None) -> ShareToken:
        """Return a token that opens one of the agent's own keys, once the turn completes.

        What is shared is the key, not its value: whoever has the token sees what it holds then.

        Args:
            writable: whether it may be updated by the token, too.
            ttl: seconds until the token expires. None: it does not.

        Raises:
            InvalidId: the key is empty, or a token. PayloadError: the time is not positive.
        """
        self._check()
        if isinstance(key, ShareToken):
            raise ShareRefused("what a token opens is shared by whom it belongs to")
        if ttl is not None and not ttl > 0:
            raise PayloadError("ttl", f"{ttl!r:.40} is not a positive number of seconds")
        token = ShareToken.new()
        self._shares[token.digest] = Shared(
            self.scope, checked_id(key, "key"), writable, float(ttl or 0)
        )
        return token

    async def complete(self, label: str = "") -> None:
        """Store what has changed, all at once. A turn that has changed nothing stores nothing.

        Raises:
            AppendConflict: somebody has written since. Nothing was stored.
            ShareRefused: a token does not open this, or does not any more. Nothing was stored.
            RedactionFailed: `redact=` failed on the label. Nothing was stored.
            PayloadTooLarge, AppendFailed, LogUnavailable: nothing was stored.
            AppendUnknown: it may have been.
        """
        self._check()
        for token in [update.token for update in self._updates.values()]:
            if token is not None:
                # Since the turn has used it, it may have been revoked, or have expired.
                self._opened.pop(token, None)
                await self._address(token)
        by_scope: dict[str, list[Change]] = {}
        for address, update in self._updates.items():
            assert isinstance(address, _Address), "tokens were resolved above"
            change = await self._change(address, update.state)
            if change is not None:
                by_scope.setdefault(address.scope, []).append(change)
        if self._expected is not None and (by_scope or self._shares):
            await self._load(self.scope)  # which looks where the agent stands, also if none is its
        writes = [
            Write(scope, loaded.version, changes, is_first=not loaded.entries)
            for scope, changes in by_scope.items()
            for loaded in [self._loaded[scope]]
        ]
        if writes or self._shares:
            if label:
                about = {"scope": self.scope}
                given = {"label": label}
                redaction = self._backend.redaction
                label = redaction.alike("AgentStates.turn", TURNED, about, given)["label"]
            versions = await self._backend.commit(writes, list(self._shares.items()), label)
            self._version = versions.get(self.scope, self._version)
            self._expected = None
        # What is updated after this is another turn, on what stands then.
        self._loaded, self._opened, self._updates, self._shares = {}, {}, {}, {}

    def end(self) -> None:
        """Let go of everything. Idempotent."""
        self._ended = True
        self._loaded, self._opened, self._updates, self._shares = {}, {}, {}, {}

    def _set(self, key: str, state: Written | None) -> None:
        self._check()
        address = self._known_address(key)
        if isinstance(key, ShareToken) and key in self._opened:
            _check_writable(self._opened[key])
        self._updates.pop(address, None)  # so that the last one is the last
        self._updates[address] = _Update(state, key if isinstance(key, ShareToken) else None)

    def _known_address(self, key: str) -> _Address | ShareToken:
        """The address that a key or a token leads to, as far as that is known without looking."""
        if not isinstance(key, ShareToken):
            return _Address(self.scope, checked_id(key, "key"))
        shared = self._opened.get(key)
        return key if shared is None else _Address(shared.scope, shared.key)

    async def _address(self, key: str) -> _Address:
        self._check()
        if isinstance(key, ShareToken) and key not in self._opened:
            digest = key.digest
            shared = self._shares.get(digest) or await self._backend.opened_by(digest)
            if shared is None:
                raise ShareRefused("it is unknown, was revoked or has expired")
            if key in self._updates:
                _check_writable(shared)
                self._updates = _renamed(self._updates, key, _Address(shared.scope, shared.key))
            self._opened[key] = shared
        address = self._known_address(key)
        assert isinstance(address, _Address), "it was looked up above"
        return address

    async def _load(self, scope: str) -> Loaded:
        loaded = self._loaded.get(scope)
        if loaded is None:
            loaded = await self._backend.load(scope, self._consistency)
            if scope == self.scope:
                if self._expected not in (None, loaded.version):
                    # A view that lags is no conflict: the log itself is asked.
                    loaded = await self._backend.load(scope, "strong")
                if self._expected is not None and self._expected != loaded.version:
                    raise AppendConflict(scope, self._expected, loaded.version)
                self._version = loaded.version
            loaded = self._loaded.setdefault(scope, loaded)
        return loaded

    async def _stored(self, address: _Address) -> Written | None:
        if address in self._updates:
            return self._updates[address].state
        entry = (await self._load(address.scope)).entries.get(address.key)
        return None if entry is None else stored_in(entry, *address)

    async def _change(self, address: _Address, state: Written | None) -> Change | None:
        """What is to be stored of an update; None if it changes nothing."""
        entry = (await self._load(address.scope)).entries.get(address.key)
        if state is None:
            return None if entry is None else Change(address.key, gone=True)
        before = None if entry is None else stored_in(entry, *address)
        if state == before:
            return None
        old = None if before is None else _native.decode(before.raw)
        # Where only the model's name or version differs, the value is said once more.
        delta = difference(old, _native.decode(state.raw)) or [1, {}, []]
        return Change(
            address.key, msgspec.Raw(_encode(delta)), state.type, state.schema, state.private
        )

    def _check(self) -> None:
        if self._ended:
            raise TurnEnded(self.scope)


class TypedStateContext(Generic[T]):
    """The states of one model in a turn. Ends with the turn."""

    def __init__(self, turn: TurnStateContext, model: type[T]) -> None:
        self._turn = turn
        self._model = model

    async def get(self, key: str) -> T:
        """See `TurnStateContext.get`."""
        return await self._turn.get(key, self._model)

    def update(self, key: str, state: T) -> None:
        """See `TurnStateContext.update`."""
        self._turn.update(key, state)

    def reset(self, key: str) -> None:
        """See `TurnStateContext.reset`."""
        self._turn.reset(key)


def _renamed(
    updates: dict[_Address | ShareToken, _Update], token: ShareToken, address: _Address
) -> dict[_Address | ShareToken, _Update]:
    """Updates in their order, with an address for a token: of two of one key the later stands."""
    renamed: dict[_Address | ShareToken, _Update] = {}
    for key, update in updates.items():
        place = address if key == token else key
        renamed.pop(place, None)
        renamed[place] = update
    return renamed


def _check_writable(shared: Shared) -> None:
    if not shared.writable:
        raise ShareRefused("it is read-only")


def _initial(model: type[T], address: _Address) -> T:
    try:
        return model()
    except ValidationError as error:
        raise StateAbsent(*address, model.__name__) from error
