"""Writing scoped state. The names, order and meaning of arguments are layer0's StateStore's."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from foldlog import codec
from foldlog.errors import ConfigurationError, PayloadError
from foldlog.scoped import records
from foldlog.scoped.cache import Cache, Transient
from foldlog.scoped.effects import AnyEffect, Effect, checked_effect
from foldlog.scoped.errors import VersionConflict
from foldlog.scoped.index import Index
from foldlog.scoped.indexes import Indexes
from foldlog.scoped.keys import Keys, Storing
from foldlog.scoped.models import (
    Lifetime,
    MemoryLink,
    StoreOptions,
    checked_link,
    checked_options,
)
from foldlog.scoped.reader import ScopedReader
from foldlog.scoped.records import Change, Held
from foldlog.scoped.scope import Scope, checked_scope
from foldlog.scoped.search import Search
from foldlog.scoped.vectors import Embedder
from foldlog.store.operation import operation
from foldlog.store.redaction import Redaction
from foldlog.store.store import BaseStore
from foldlog.subjects import checked_id
from foldlog_projections import scoped
from foldlog_projections.scoped import OWN


class Expect(Enum):
    """What a write may find, other than one version."""

    ANYTHING = "anything"


Expected = str | None | Literal[Expect.ANYTHING]
"""A version; None for no such key."""

_ENDED_AT_ONCE: Final = 256
_APPLY: Final = "ScopedStore.apply"


_operation: Final = functools.partial(operation, prefix="scoped.")


class ScopedStore(ScopedReader):
    """Keys in scopes, made by `store.scoped`. Lives as long as its store.

    Writes raise also where the store degrades. Inside `store.atomic()` they are made with the
    block; reads do not see them before. What is stored of a value, or of a link's metadata, is what
    the store's `redact=` makes of it.
    """

    def __init__(self, keys: Keys, transient: Transient, searches: list[Search]) -> None:
        super().__init__(keys, transient, searches[-1])
        self._searches = searches

    @functools.cached_property
    def reader(self) -> ScopedReader:
        """The same scopes, for callers who may not write."""
        return ScopedReader(self._keys, self._transient, self._search)

    def with_search(
        self, *, embedder: Embedder | None = None, path: Path | str | None = None
    ) -> ScopedStore:
        """Return the same scopes, searched in another way.

        Args:
            embedder: an async function that makes vectors of texts.
            path: a directory for the search indexes, which this process can read and write. None:
                in memory.
        """
        indexes = Indexes(self._keys.journal, None if path is None else Path(path))
        self._searches.append(Search(self._keys, indexes, embedder))
        return type(self)(self._keys, self._transient, self._searches)

    @_operation(writes=True)
    async def write(
        self,
        scope: Scope,
        key: str,
        value: Any,
        *,
        expected: Expected = Expect.ANYTHING,
        session_id: str | None = None,
    ) -> str:
        """Write a value, in place of what was there, hints included. Returns the version.

        Args:
            scope: the scope.
            key: the key.
            value: JSON, and other data that the log can hold; it comes back exactly.
            expected: the version that the key must be at, as `entry` has it; None: no such key.
            session_id: the session that the key belongs to, and is cleared with. The keys of
                `Scope.session(id)` need none.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            VersionConflict: the key is not at that version. Nothing was written.

        Examples:
            >>> scope = foldlog.scoped.Scope.session("trip")
            >>> version = await store.scoped.write(scope, "seat", {"side": "aisle"})
            >>> await store.scoped.read(scope, "seat")
            {'side': 'aisle'}
            >>> later = await store.scoped.write(scope, "seat", "window", expected=version)
            >>> await store.scoped.read(scope, "seat")
            \'window\'
        """
        return await self.write_hinted(
            scope, key, value, StoreOptions(), expected=expected, session_id=session_id
        )

    @_operation(writes=True)
    async def write_hinted(
        self,
        scope: Scope,
        key: str,
        value: Any,
        options: StoreOptions,
        *,
        expected: Expected = Expect.ANYTHING,
        session_id: str | None = None,
    ) -> str:
        """Write a value with hints. Returns the version; "" for a transient value.

        Args:
            scope: the scope.
            key: the key.
            value: JSON, and other data that the log can hold; it comes back exactly.
            options: the hints: lifetime, tier, salience, kind of content, and time to live.
            expected: the version that the key must be at, as `entry` has it; None: no such key.
            session_id: the session that the key belongs to, and is cleared with.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            VersionConflict: the key is not at that version. Nothing was written.
        """
        options = checked_options(options)
        body = _encoded(self._redaction, "ScopedStore.write", scope, key, value, options)
        if options.lifetime is Lifetime.TRANSIENT:
            if expected is not Expect.ANYTHING:
                raise ConfigurationError(
                    "expected= and Lifetime.TRANSIENT: a transient value has no versions"
                )
            checked_id(key, "key")
            self._transient.put(checked_scope(scope), key, body, options)
            return ""
        self._keys.subject(scope, key)  # refuses what is none
        await self._keys.add_belongings(session_id, [(scope, key)])
        async with self._keys.storing() as store:
            version = records.new_version()
            blob = await store(scope, key, body)
            change = records.written(key, body, options, version, blob)
            if expected is Expect.ANYTHING:
                await self._keys.append([(scope, change)])
            else:
                await self._replace(scope, change, expected)

        def remember() -> None:
            self._indexes.written(scope, 1)
            self._remember(scope, change, body, options)

        self._keys.core.after_stored(remember)
        return change.draft.id

    @_operation(writes=True)
    async def write_many(
        self,
        scope: Scope,
        values: Mapping[str, Any],
        options: StoreOptions | None = None,
        *,
        session_id: str | None = None,
    ) -> dict[str, str]:
        """Write several values, all or none, with the same hints; return their versions by key.

        A server takes somewhat less than a thousand in one append.

        Args:
            scope: the scope.
            values: the values, by key.
            options: the hints.
            session_id: the session that the keys belong to, and are cleared with.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
        """
        hints = StoreOptions() if options is None else options
        if not isinstance(values, Mapping):
            raise PayloadError("values", f"{values!r:.80} is not a mapping")
        effects = [Effect.WriteMemory(scope, key, value, hints) for key, value in values.items()]
        versions = await self.apply(effects, session_id=session_id)
        return dict(zip(values, versions, strict=True))

    @_operation(writes=True)
    async def apply(
        self, effects: Iterable[AnyEffect], *, session_id: str | None = None
    ) -> list[str]:
        """Apply effects in order, all or none; return the version that each has made.

        Versions of links, and of transient values, are "". Effects in several scopes need a
        namespace with one shard, or scopes that share theirs.

        Args:
            effects: writes, deletions, links.
            session_id: the session that the written keys belong to, and are cleared with.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            ConfigurationError: the scopes do not share a shard. Nothing was written.
        """
        checked = [_checked(self._redaction, effect) for effect in effects]
        changes: list[Change | None] = []
        async with self._keys.storing() as store:
            for effect, body in checked:
                changes.append(await _change(effect, body, store))
            scoped_changes = [
                (effect.scope, change)
                for (effect, _), change in zip(checked, changes, strict=True)
                if change is not None
            ]
            if scoped_changes:
                written = [(scope, c.key) for scope, c in scoped_changes if c.key != OWN]
                await self._keys.add_belongings(session_id, written)
                await self._keys.append(scoped_changes)

        def remember() -> None:
            for scope, count in Counter(scope for scope, _ in scoped_changes).items():
                self._indexes.written(scope, count)
            for (effect, body), change in zip(checked, changes, strict=True):
                if isinstance(effect, Effect.DeleteMemory):
                    self._transient.drop(effect.scope, effect.key)
                elif isinstance(effect, Effect.WriteMemory):
                    if change is None:
                        self._transient.put(effect.scope, effect.key, body, effect.options)
                    else:
                        self._remember(effect.scope, change, body, effect.options)

        self._keys.core.after_stored(remember)
        return [change.draft.id if change and change.key != OWN else "" for change in changes]

    @_operation(writes=True)
    async def delete(self, scope: Scope, key: str, *, expected: Expected = Expect.ANYTHING) -> None:
        """Delete a key, and with it the links from it and to it. A missing key is left alone.

        Its history stays.

        Args:
            scope: the scope.
            key: the key.
            expected: the version that the key must be at, as `entry` tells it.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            VersionConflict: the key is not at that version. Nothing was deleted.
        """
        change = records.deleted(key)
        if expected is not Expect.ANYTHING:
            await self._replace(scope, change, expected)
        else:
            await self._keys.decide(scope, [key], lambda held: [change] if held else [])

        def forget() -> None:
            self._transient.drop(scope, key)
            self._keys.cache.drop(self._keys.subject(scope, key))

        self._keys.core.after_stored(forget)

    @_operation(writes=True)
    async def link(self, scope: Scope, link: MemoryLink) -> None:
        """Link two keys. A link that is there gets this metadata.

        The keys need not be there yet. A link goes when one of its keys is deleted.

        Args:
            scope: the scope.
            link: the link.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
        """
        link = _redacted(self._redaction, "ScopedStore.link", scope, checked_link(link))
        await self._keys.append([(scope, records.linked(link))])

    @_operation(writes=True)
    async def unlink(self, scope: Scope, from_key: str, to_key: str, relation: str) -> None:
        """Remove a link. A missing link is left alone.

        Args:
            scope: the scope.
            from_key: the key that the link leaves.
            to_key: the key that it leads to.
            relation: what the one is to the other.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
        """
        change = records.unlinked(from_key, to_key, relation)
        await self._keys.append([(scope, change)])

    @_operation(writes=True)
    async def end_session(self, session: str | Scope) -> int:
        """Delete what was written for a session only (`Lifetime.SESSION`). Returns how many keys.

        Args:
            session: the id of a session, for what is in `Scope.session(id)`; or another scope, for
                what was written there for a session that ends now.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            LogCorrupt, SearchFailed: the keys cannot be listed. Nothing was deleted.
        """
        scope = session if isinstance(session, Scope) else Scope.session(session)
        ended, passed = 0, set[str]()
        while True:
            found = await self._indexes.ask(scope, "strong", Index.of_session)
            keys = {key: version for key, version in found.items() if version not in passed}
            if not keys:
                return ended
            some = list(keys)[:_ENDED_AT_ONCE]
            ended += len(await self._keys.decide(scope, some, _deletions))
            passed.update(keys[key] for key in some)

    @_operation(writes=True)
    async def clear(self, scope: Scope, key: str | None = None) -> None:
        """Remove a scope: its keys, links, values and all their history; or only one key of it.

        No read shows it any more, nor any earlier moment. The bytes of a whole scope stay in the
        server's files until it next rewrites them; erasing the session that a scope belongs to
        overwrites them. What is written meanwhile may go or stay. The search indexes forget it,
        too.

        Args:
            scope: the scope.
            key: only this key. None: all.

        Raises:
            InvalidId, PayloadError: the scope or the key was refused.
            SessionHasForks: it is a session's, and shared with forks. Nothing was removed.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown, SearchFailed: some may remain;
                clearing again is safe.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        await self._keys.clear(scope, key)
        if key is None:
            await self.forget(scope)
            return
        self._transient.drop(scope, key)
        for search in self._searches:
            await search.indexes.forget(scope)

    async def forget(self, scope: Scope | None) -> None:
        """Internal: drop what is stored of a scope beside the log, here and in search indexes.

        None: of all scopes. `clear`, and the store's clearing, call it.

        Raises:
            SearchFailed: a search index may not have forgotten; calling again is safe.
        """
        if scope is None:
            self._transient.clear()
        else:
            self._transient.drop_scope(scope)
        for search in self._searches:
            await search.indexes.forget(scope)

    async def _replace(self, scope: Scope, change: Change, expected: str | None) -> None:
        """Append a change of a key that is at the `expected` version, or VersionConflict."""
        key = change.key

        def decide(held: Mapping[str, Held]) -> list[Change]:
            actual = held[key].version if key in held else None
            if actual != expected:
                raise VersionConflict(key, expected, actual)
            return [change]

        await self._keys.decide(scope, [key], decide)

    async def close(self) -> None:
        """Close the indexes. The store calls it. Raises nothing."""
        for search in self._searches:
            await search.close()

    @property
    def _redaction(self) -> Redaction:
        return self._keys.core.redaction

    def _remember(self, scope: Scope, change: Change, body: bytes, options: StoreOptions) -> None:
        self._transient.drop(scope, change.key)
        subject = self._keys.subject(scope, change.key)
        tier = options.tier or ""
        self._keys.cache.put(subject, change.draft.id, body, tier, options.salience)


def _deletions(held: Mapping[str, Held]) -> list[Change]:
    """Deletions of the keys that were written for the session only."""
    return [
        records.deleted(key)
        for key, each in held.items()
        if each.written is not None and each.written.lifetime == Lifetime.SESSION
    ]


def _checked(redaction: Redaction, effect: AnyEffect) -> tuple[AnyEffect, bytes]:
    """An effect with its parts as what they should be, and the encoded value of a write."""
    checked_effect(effect)
    if isinstance(effect, Effect.LinkMemory):
        link = _redacted(redaction, _APPLY, effect.scope, effect.link)
        return msgspec.structs.replace(effect, link=link), b""
    if not isinstance(effect, Effect.WriteMemory):
        return effect, b""
    checked_id(effect.key, "key")
    options = checked_options(effect.options)
    body = _encoded(redaction, _APPLY, effect.scope, effect.key, effect.value, options)
    return msgspec.structs.replace(effect, options=options), body


def _encoded(
    redaction: Redaction, method: str, scope: Scope, key: str, value: Any, options: StoreOptions
) -> bytes:
    """A value as it is stored; a transient one, which is not, as it is."""
    if options.lifetime is not Lifetime.TRANSIENT:
        about = {"scope": scope, "key": key}
        value = redaction.value(method, scoped.WRITTEN, about, value=value)
    return codec.encode(value, "value")


def _redacted(redaction: Redaction, method: str, scope: Scope, link: MemoryLink) -> MemoryLink:
    about = {
        "scope": scope,
        "from_key": link.from_key,
        "to_key": link.to_key,
        "relation": link.relation,
    }
    metadata = redaction.value(method, scoped.LINKED, about, metadata=link.metadata)
    return msgspec.structs.replace(link, metadata=metadata)


async def _change(effect: AnyEffect, body: bytes, store: Storing) -> Change | None:
    """What an effect appends; nothing if it is transient."""
    match effect:
        case Effect.WriteMemory(options=StoreOptions(lifetime=Lifetime.TRANSIENT)):
            return None
        case Effect.WriteMemory():
            version = records.new_version()
            blob = await store(effect.scope, effect.key, body)
            return records.written(effect.key, body, effect.options, version, blob)
        case Effect.DeleteMemory():
            return records.deleted(effect.key)
        case Effect.LinkMemory():
            return records.linked(effect.link)
        case Effect.UnlinkMemory():
            return records.unlinked(effect.from_key, effect.to_key, effect.relation)


def open_scoped(journal: BaseStore, *, max_bytes: int, directory: Path | None) -> ScopedStore:
    """Return the ScopedStore over a store's log; `directory`: for search indexes, if anywhere."""
    keys = Keys(journal, Cache(max_bytes))
    # The stream's name tells the namespace, in characters that any file system takes.
    place = directory and directory / "search" / keys.core.namespace.stream(0)
    return ScopedStore(keys, Transient(), [Search(keys, Indexes(journal, place))])
