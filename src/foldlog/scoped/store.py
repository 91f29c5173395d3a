"""Writing scoped state. The names, order and meaning of arguments are layer0's StateStore's."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from foldlog import codec
from foldlog.errors import Misuse, PayloadError
from foldlog.scoped import records
from foldlog.scoped.effects import AnyEffect, Effect, checked_effect
from foldlog.scoped.errors import VersionConflict
from foldlog.scoped.index import Index
from foldlog.scoped.indexes import Indexes
from foldlog.scoped.keys import Keys, Storing
from foldlog.scoped.models import (
    Lifetime,
    MemoryLink,
    StoreOptions,
    checked_options,
)
from foldlog.scoped.reader import ScopedReader
from foldlog.scoped.records import Change, Held
from foldlog.scoped.scope import Scope
from foldlog.scoped.search import Search
from foldlog.scoped.transient import Transient
from foldlog.scoped.vectors import Embedder
from foldlog.store.operation import operation
from foldlog.store.redaction import Redaction
from foldlog.store.store import BaseStore
from foldlog.subjects import checked_id
from foldlog_projections.scoped import scoped
from foldlog_projections.scoped.scoped import OWN


class Expect(Enum):
    """What a write may find, other than one version."""

    ANYTHING = "anything"


Expected = str | None | Literal[Expect.ANYTHING]
"""A version; None for no such key."""

_ENDED_AT_ONCE: Final = 256


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
            embedder: a function, async or not, that makes vectors of texts.
            path: a directory for the search indexes, which this process can read and write. None:
                the indexes of this object.
        """
        indexes = self._indexes if path is None else Indexes(self._keys, Path(path))
        self._searches.append(Search(self._keys, indexes, embedder))
        return type(self)(self._keys, self._transient, self._searches)

    @_operation(writes=True)
    async def write(
        self,
        scope: Scope,
        key: str,
        value: Any,
        options: StoreOptions | None = None,
        *,
        expected: Expected = Expect.ANYTHING,
        session_id: str | None = None,
    ) -> str:
        """Write a value, in place of what was there, hints included.

        Args:
            scope: the scope.
            key: the key.
            value: JSON, and other data that the log can hold; it comes back exactly.
            options: hints: lifetime, tier, salience, kind of content, and time to live.
            expected: the version that the key must be at, as `entry` has it; None: no such key.
            session_id: the session that the key belongs to, and is cleared with. The keys of
                `Scope.session(id)` need none.

        Returns:
            The version; "" for a transient value.

        Raises:
            InvalidId, PayloadError, PayloadTooLarge, RedactionFailed: the input was refused.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: nothing was stored.
            AppendUnknown: it may have been stored; saving the same again is safe.
            VersionConflict: the key is not at that version. Nothing was written.
            Misuse: a transient value has no version to expect.

        Examples:
            >>> scope = foldlog.scoped.Scope.session("trip")
            >>> version = await store.scoped.write(scope, "seat", {"side": "aisle"})
            >>> await store.scoped.read(scope, "seat")
            {'side': 'aisle'}
            >>> later = await store.scoped.write(scope, "seat", "window", expected=version)
            >>> await store.scoped.read(scope, "seat")
            \'window\'
        """
        write = Effect.WriteMemory(scope, key, value, _hints(options))
        [version] = await self._apply("write", [write], session_id, expected)
        return version

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
        if not isinstance(values, Mapping):
            raise PayloadError("values", f"{values!r:.80} is not a mapping")
        hints = _hints(options)
        effects = [Effect.WriteMemory(scope, key, value, hints) for key, value in values.items()]
        versions = await self._apply("write_many", effects, session_id)
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
            Misuse: the scopes do not share a shard. Nothing was written.
        """
        return await self._apply("apply", list(effects), session_id)

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
        self._keys.core.after_stored(lambda: self._transient.drop(scope, key))

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
        await self._apply("link", [Effect.LinkMemory(scope, link)])

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
        await self._apply("unlink", [Effect.UnlinkMemory(scope, from_key, to_key, relation)])

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
    async def erase(self, scope: Scope, key: str | None = None) -> None:
        """Erase a scope: its keys, links, values and all their history; or only one key of it.

        No read shows it any more, nor any earlier moment. The bytes of a whole scope stay in the
        server's files until it next rewrites them; erasing the session that a scope belongs to
        overwrites them. What is written meanwhile may go or stay. The search indexes forget it,
        too.

        Args:
            scope: the scope.
            key: only this key. None: all.

        Raises:
            InvalidId, PayloadError: the scope or the key was refused.
            SessionHasForks: it is a session's, and shared with forks. Nothing was erased.
            AppendFailed, LogUnavailable, LogCorrupt, AppendUnknown, SearchFailed: some may remain;
                erasing again is safe.
            ReadOnlyStore, StoreClosed: the store is of the past, or closed.
        """
        await self._keys.clear(scope, key)

    async def forget(self, scope: Scope | None, key: str | None = None) -> None:
        """Internal: drop what is stored of a scope beside the log, here and in search indexes.

        None: of all scopes; with `key`, values of that one only. Every removal calls it.

        Raises:
            SearchFailed: a search index may not have forgotten; calling again is safe.
        """
        self._transient.clear(scope, key)
        for indexes in {search.indexes for search in self._searches}:
            await indexes.forget(scope)

    async def _apply(
        self,
        method: str,
        effects: Sequence[AnyEffect],
        session_id: str | None = None,
        expected: Expected = Expect.ANYTHING,
    ) -> list[str]:
        """Apply effects, all or none; `expected`: of one write, the version that it replaces."""
        checked = [_checked(self._redaction, f"ScopedStore.{method}", each) for each in effects]
        changes: list[Change | None] = []
        async with self._keys.storing() as store:
            for effect, body in checked:
                changes.append(await _change(effect, body, store))
            made = [
                (effect.scope, change)
                for (effect, _), change in zip(checked, changes, strict=True)
                if change is not None
            ]
            if expected is not Expect.ANYTHING and not made:
                raise Misuse("expected= and Lifetime.TRANSIENT: a transient value has no versions")
            written = [(scope, change.key) for scope, change in made if change.key != OWN]
            await self._keys.add_belongings(session_id, written)
            if expected is not Expect.ANYTHING:
                await self._replace(*made[0], expected)
            elif made:
                await self._keys.append(made)

        def remember() -> None:
            for effect, body in checked:
                if isinstance(effect, Effect.WriteMemory) and _is_transient(effect.options):
                    self._transient.put(effect.scope, effect.key, body, effect.options)
                elif isinstance(effect, Effect.WriteMemory | Effect.DeleteMemory):
                    self._transient.drop(effect.scope, effect.key)

        if made:
            self._keys.core.after_stored(remember)
        else:
            remember()
        return [change.draft.id if change and change.key != OWN else "" for change in changes]

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
        for indexes in {search.indexes for search in self._searches}:
            await indexes.close()

    @property
    def _redaction(self) -> Redaction:
        return self._keys.core.redaction


def _hints(options: StoreOptions | None) -> StoreOptions:
    return StoreOptions() if options is None else options


def _is_transient(options: StoreOptions) -> bool:
    return options.lifetime is Lifetime.TRANSIENT


def _deletions(held: Mapping[str, Held]) -> list[Change]:
    """Deletions of the keys that were written for the session only."""
    return [
        records.deleted(key)
        for key, each in held.items()
        if each.written is not None and each.written.lifetime == Lifetime.SESSION
    ]


def _checked(redaction: Redaction, method: str, effect: AnyEffect) -> tuple[AnyEffect, bytes]:
    """An effect with its parts as what they should be, redacted, and the encoded value of a write.

    A transient value is not stored, and stays as it is.
    """
    checked_effect(effect)
    match effect:
        case Effect.WriteMemory():
            about = {"scope": effect.scope, "key": checked_id(effect.key, "key")}
            value, options = effect.value, checked_options(effect.options)
            effect = msgspec.structs.replace(effect, options=options)
            if not _is_transient(options):
                value = redaction.value(method, scoped.WRITTEN, about, value=value)
            return effect, codec.encode(value, "value")
        case Effect.LinkMemory(link=link):
            ends = {"from_key": link.from_key, "to_key": link.to_key, "relation": link.relation}
            about = {"scope": effect.scope, **ends}
            metadata = redaction.value(method, scoped.LINKED, about, metadata=link.metadata)
            link = msgspec.structs.replace(link, metadata=metadata)
            return msgspec.structs.replace(effect, link=link), b""
        case _:
            return effect, b""


async def _change(effect: AnyEffect, body: bytes, store: Storing) -> Change | None:
    """What an effect appends; nothing if it is transient."""
    match effect:
        case Effect.WriteMemory():
            if _is_transient(effect.options):
                return None
            version = records.new_version()
            blob = await store(effect.scope, effect.key, body)
            return records.written(effect.key, body, effect.options, version, blob)
        case Effect.DeleteMemory():
            return records.deleted(effect.key)
        case Effect.LinkMemory():
            return records.linked(effect.link)
        case Effect.UnlinkMemory():
            return records.unlinked(effect.from_key, effect.to_key, effect.relation)


def open_scoped(journal: BaseStore, directory: Path | None) -> ScopedStore:
    """Return the ScopedStore over a store's log; `directory`: for search indexes, if anywhere."""
    keys = Keys(journal)
    # The stream's name tells the namespace, in characters that any file system takes.
    place = directory and directory / "search" / keys.core.namespace.stream(0)
    return ScopedStore(keys, Transient(), [Search(keys, Indexes(keys, place))])
