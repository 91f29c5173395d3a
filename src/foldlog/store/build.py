"""A rebuild's own record: what it has made so far, so that the next process can go on with it.

It stands beside the snapshots that the rebuild makes, and is safe to lose as they are: the rebuild
then begins anew. It counts only for the same projections in the same versions, over the same log.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from foldlog.errors import ConfigurationError
from foldlog.subjects import Namespace, Subject
from foldlog.upcasting import UPCASTERS
from foldlog.views.comparison import Difference
from foldlog.views.snapshots import Snapshots
from foldlog_projections.fold import Projection
from foldlog_projections.own import family_of

_FAMILY: Final = "rebuild"
"""A family of the snapshots alone: the log has no such subjects."""

_FORMAT: Final = 1
_DIGEST_BYTES: Final = 8
_PART_BYTES: Final = 256 * 1024


class Made(msgspec.Struct):
    """What a rebuild has done: up to which point of which shard, and what that gave.

    Everything before sequence `after` of shard `shard` was folded, and of what comes later the
    subjects that are noted as finished.
    """

    shard: int = 0
    after: int = 0
    views: dict[str, int] = {}
    records: int = 0
    envelopes: int = 0
    differing: list[Difference] = []
    changed: list[Difference] = []


class _Head(msgspec.Struct, frozen=True):
    format: int
    payload_version: int
    owner: str
    identities: list[str]
    editions: dict[str, tuple[int, str]]
    parts: int
    made: Made


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Head)


class Build:
    """New editions of some projections' snapshots, in the making. Made by `begin`.

    `made` is what was done, by this process or by one that was interrupted; `is_resumed` says
    whether there was one.
    """

    def __init__(
        self,
        snapshots: Snapshots,
        subject: Subject,
        targets: Sequence[Projection[Any]],
        head: _Head,
        finished: set[bytes],
        *,
        is_resumed: bool,
    ) -> None:
        self._snapshots = snapshots
        self._subject = subject
        self._targets = targets
        self._head = head
        self._finished = finished
        self._new: list[bytes] = []
        self.made = head.made
        self.is_resumed = is_resumed

    @classmethod
    async def begin(
        cls, snapshots: Snapshots, namespace: Namespace, targets: Sequence[Projection[Any]]
    ) -> Build:
        """Begin, or go on with what was interrupted.

        Raises:
            LogUnavailable, AppendFailed, ConfigurationError: snapshots cannot be kept now.
        """
        name = targets[0].name if len(targets) == 1 else "*"
        subject = namespace.subject(_FAMILY, name)
        identities = [
            await snapshots.store.identity(Subject("", shard, ()))
            for shard in range(namespace.shards)
        ]
        editions = {
            each.name: (each.version, await snapshots.editions.next(each)) for each in targets
        }
        head = _Head(
            _FORMAT, UPCASTERS.fingerprint, secrets.token_hex(8), identities, editions, 0, Made()
        )
        (data,) = await snapshots.store.get(subject, [0])
        found = _read(data)
        if found is not None and _is_same(found, head):
            head = msgspec.structs.replace(head, parts=found.parts, made=found.made)
            parts = await snapshots.store.get(subject, range(1, found.parts + 1))
            if all(part is not None for part in parts):
                finished = {each for part in parts for each in _split(part or b"")}
                self = cls(snapshots, subject, targets, head, finished, is_resumed=True)
                await self._put_head()
                return self
            head = msgspec.structs.replace(head, parts=0, made=Made())
        await snapshots.store.purge(subject)
        for each in targets:
            edition = editions[each.name][1]
            await snapshots.store.purge_editions(family_of(each), edition.__eq__)
        return cls(snapshots, subject, targets, head, set(), is_resumed=False)

    def edition(self, projection: Projection[Any]) -> str:
        """Where the new snapshots of a projection go."""
        return self._head.editions[projection.name][1]

    def is_finished(self, name: str) -> bool:
        """Whether a subject, by its name, was folded and compared."""
        return _digest(name) in self._finished

    def finish(self, names: Iterable[str]) -> None:
        """Note subjects as finished: their snapshots are stored."""
        self._new += map(_digest, names)

    async def save(self) -> None:
        """Store how far it is.

        Raises:
            ConfigurationError: another process has taken the rebuild over.
            LogUnavailable, AppendFailed: it is not stored, or it is not known.
        """
        (data,) = await self._snapshots.store.get(self._subject, [0])
        found = _read(data)
        if found is not None and found.owner != self._head.owner:
            raise ConfigurationError("another process has begun this rebuild, or goes on with it")
        number = self._head.parts
        per_part = _PART_BYTES // _DIGEST_BYTES
        for start in range(0, len(self._new), per_part):
            number += 1
            part = b"".join(self._new[start : start + per_part])
            await self._snapshots.store.put(self._subject, number, part)
        self._new.clear()
        self._head = msgspec.structs.replace(self._head, parts=number)
        await self._put_head()

    async def switch(self) -> None:
        """Have every target read from its new edition from now on. Errors as `Editions.switch`."""
        for each in self._targets:
            await self._snapshots.editions.switch(each, self.edition(each))
        await self._snapshots.store.purge(self._subject)

    async def _put_head(self) -> None:
        await self._snapshots.store.put(self._subject, 0, _encoder.encode(self._head))


def _read(data: bytes | None) -> _Head | None:
    if data is None:
        return None
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError:
        return None  # of another version of foldlog: it cannot go on with it


def _is_same(found: _Head, head: _Head) -> bool:
    return (found.format, found.payload_version, found.identities, found.editions) == (
        head.format,
        head.payload_version,
        head.identities,
        head.editions,
    )


def _digest(name: str) -> bytes:
    return hashlib.blake2b(name.encode(), digest_size=_DIGEST_BYTES).digest()


def _split(part: bytes) -> list[bytes]:
    return [part[at : at + _DIGEST_BYTES] for at in range(0, len(part), _DIGEST_BYTES)]
