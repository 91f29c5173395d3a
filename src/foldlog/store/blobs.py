"""Large values: bytes beside the log that belong to one view, and go when the view is removed."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import itertools
import secrets
import time
from collections.abc import Iterable
from contextlib import aclosing, suppress
from typing import Any, Final, NamedTuple

from foldlog.envelope import Recorded
from foldlog.errors import LogCorrupt, PastErased
from foldlog.kind import Key, Kind
from foldlog.log.blobs import BlobName
from foldlog.log.forks import origins
from foldlog.store.core import Capability, Core
from foldlog.store.operation import operation
from foldlog.subjects import Subject
from foldlog.upcasting import UPCASTERS

LOOSE_SECONDS: Final = 3600.0
"""How old a large value must be to count as left behind: older than any save under way."""

_HASHED_IN_A_THREAD: Final = 1024 * 1024
"""Bytes from which hashing would block the event loop for longer than a thread costs."""


_operation: Final = functools.partial(operation, prefix="blobs.")


class BlobRef(NamedTuple):
    """A large value: the kind and the keys of the view that it belongs to, and its name."""

    kind: str
    keys: tuple[str, ...]
    name: str


class LargeValues(Capability):
    """Values that are too large for a record: `store.blobs`. Each belongs to one view."""

    @_operation(writes=True)
    async def put(self, key: Key[Any], data: bytes, *, ttl: int | None = None) -> str:
        """Store a large value of a view; return its name, which a `Blob` field of a record holds.

        Append the record afterwards, and call `keep` then. A value whose record never comes is
        removed with the view, or by `sweep`.

        Args:
            key: the view: `kind(*keys)`.
            data: the bytes.
            ttl: seconds for which the value is needed. None: as long as the view has it.

        Raises:
            InvalidId: a key is empty. ConfigurationError: the store does not know the kind.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: it was not stored.
        """
        name = f"{await digest(data)}-{secrets.token_hex(10)}"
        await self._core.backend.blobs.put(self._core.subject_of(key).name, name, data, ttl=ttl)
        return name

    @_operation()
    async def read(self, key: Key[Any], name: str) -> bytes | None:
        """Return a large value that a record of the view names; None if it is gone.

        A fork reads what its origin's records name.

        Args:
            key: the view: `kind(*keys)`.
            name: the name that the record holds.

        Raises:
            InvalidId: a key is empty. ConfigurationError: the store does not know the kind.
            PastErased: in a store of the past, it was removed since.
            LogCorrupt: the bytes are not whole, or not those that were saved.
            LogUnavailable, StoreClosed: no answer, or a closed store.
        """
        found = await self._held_blob(self._core.subject_of(key), name)
        if found is None and self._core.past is not None:
            raise PastErased(f"the large value {name} of {key}", "its bytes were removed since")
        return found

    async def _held_blob(self, subject: Subject, name: str) -> bytes | None:
        async with aclosing(origins(self._core.log, subject)) as subjects:
            async for each in subjects:
                data = await self._core.backend.blobs.get(each.name, name)
                if data is not None:
                    if await digest(data) != name.partition("-")[0]:
                        raise LogCorrupt(each.name, 0, f"blob {name}: other bytes than were saved")
                    return data
        return None

    @_operation(writes=True)
    async def keep(self, key: Key[Any], name: str, data: bytes, *, ttl: int | None = None) -> None:
        """See that a large value is there, now that its record is appended.

        Removing the view between `put` and the append removes the value, too; this stores it
        again then. Inside `store.atomic()` it waits until the block is stored.

        Args:
            key: the view: `kind(*keys)`.
            name: what `put` returned.
            data: the bytes.
            ttl: seconds, as for `put`.

        Raises:
            InvalidId: a key is empty. ConfigurationError: the store does not know the kind.
            AppendFailed, LogUnavailable, ReadOnlyStore, StoreClosed: it may not be there.
        """
        subject, blobs = self._core.subject_of(key).name, self._core.backend.blobs
        await self._core.once_stored(lambda: blobs.put(subject, name, data, ttl=ttl))

    @_operation(writes=True)
    async def remove(self, key: Key[Any], name: str) -> None:
        """Remove a large value that no record of the view names any more. Fine if it is gone.

        Inside `store.atomic()` it waits until the block is stored.

        Args:
            key: the view: `kind(*keys)`.
            name: its name.

        Raises:
            InvalidId: a key is empty. ConfigurationError: the store does not know the kind.
            LogUnavailable, ReadOnlyStore, StoreClosed: it may remain; removing again is safe.
        """
        subject = self._core.subject_of(key).name
        await self._core.once_stored(lambda: self._core.backend.blobs.delete(subject, name))

    @_operation(writes=True)
    async def sweep(self, *, older_than: float = LOOSE_SECONDS) -> int:
        """Remove the large values that no record names: what interrupted saves have left behind.

        It is for operators: it reads the views that have large values, but for those of kinds that
        the store does not know. The values of a view with a damaged record stay.

        Args:
            older_than: seconds since a value was stored. It must exceed the time between storing
                one and appending its record.

        Returns:
            How many values were removed.

        Raises:
            LogUnavailable, ReadOnlyStore, StoreClosed: some may remain; sweep again.
        """
        removed, blobs = 0, self._core.backend.blobs
        for each in await loose_blobs(self._core, await blobs.names(partial=True)):
            if time.time() - await blobs.stored_at(each) >= older_than:
                await blobs.delete(*each)
                removed += 1
        return removed


async def loose_blobs(core: Core, stored: Iterable[BlobName]) -> list[BlobName]:
    """Return those of stored large values that no record names. What a kind that this program
    does not know has, or a view with a damaged record, counts as named.
    """
    found = list[BlobName]()
    for subject, blobs in itertools.groupby(stored, lambda each: each.subject):
        _, _, shard, family, _ = subject.split(".", 4)
        if (kind := core.kinds.get(family)) is not None:
            with suppress(LogCorrupt):
                named = await _named_in(core, kind, int(shard), subject)
                found += [each for each in blobs if each.name not in named]
    return found


async def _named_in(core: Core, kind: Kind[Any], shard: int, subject: str) -> set[str]:
    """The names of the large values that the records of a subject hold."""
    found = set[str]()
    async for page in core.log.scan(shard, only=[subject]):
        for stored in page:
            for envelope in stored.record().envelopes:
                found.update(blobs_in(kind, envelope))
    return found


def blobs_in(kind: Kind[Any], envelope: Recorded) -> tuple[str, ...]:
    """Return the names of the large values that an envelope's record holds."""
    record = kind.records.get(envelope.type)
    if record is None or record.blobs is None:
        return ()
    return record.blobs(UPCASTERS.bring_up(envelope).payload)


async def digest(data: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    if len(data) < _HASHED_IN_A_THREAD:
        return hashlib.sha256(data).hexdigest()
    return (await asyncio.to_thread(hashlib.sha256, data)).hexdigest()
