"""Which snapshots are read: those of the edition that a projection was switched to last.

A projection's snapshots may stand in several editions beside each other: in the one that it is read
from, and in one that a rebuild is making. A catalogue, beside the snapshots themselves, says which
one it is read from, for each version of the projection. Losing it costs the snapshots it led to.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from foldlog.log.snapshots import SnapshotStore
from foldlog.subjects import Namespace, escape
from foldlog_projections.fold import Projection
from foldlog_projections.own import family_of

_FAMILY: Final = "catalogue"
"""A family of the snapshots alone: the log has no such subjects."""

_APART: Final = "~"

_decoder: Final = msgspec.msgpack.Decoder(dict[int, str])


class Editions:
    """The catalogue of one namespace. Lives as long as the snapshots' owner."""

    def __init__(self, namespace: Namespace, store: SnapshotStore) -> None:
        self._namespace = namespace
        self._store = store
        self._known: dict[str, dict[int, str]] = {}

    def last_known(self, projection: Projection[Any]) -> str:
        """The edition as it was when it was asked for last."""
        known = self._known.get(projection.name, {})
        return known.get(projection.version, first(projection))

    async def current(self, projection: Projection[Any]) -> str:
        """Return the edition that a projection is read from. Errors as `SnapshotStore.get`."""
        await self._load(projection)
        return self.last_known(projection)

    async def of_other_versions(self, projection: Projection[Any]) -> list[str]:
        """Return the editions that other versions of it may be read from, the newest first.

        Errors as `SnapshotStore.get`.
        """
        known = await self._load(projection)
        others = [known[v] for v in sorted(known, reverse=True) if v != projection.version]
        return list(dict.fromkeys([*others, first(projection)]))

    async def next(self, projection: Projection[Any]) -> str:
        """Return a name for another edition. Errors as `SnapshotStore.get`."""
        known = await self._load(projection)
        numbers = [int(each.rpartition(_APART)[2]) for each in known.values()]
        return f"{_base(projection)}v{projection.version}{_APART}{max(numbers, default=0) + 1}"

    async def switch(self, projection: Projection[Any], edition: str) -> None:
        """Have a projection read from an edition, and remove all its others.

        Raises:
            AppendFailed, ConfigurationError: refused. LogUnavailable: it may be done or not.
        """
        self._known[projection.name] = {projection.version: edition}
        body = msgspec.msgpack.encode(self._known[projection.name])
        await self._store.put(self._subject(projection), 0, body)
        await self._store.purge_editions(
            family_of(projection), lambda each: each != edition and belongs(projection, each)
        )

    async def _load(self, projection: Projection[Any]) -> dict[int, str]:
        (data,) = await self._store.get(self._subject(projection), [0])
        try:
            known = {} if data is None else _decoder.decode(data)
        except msgspec.MsgspecError:
            known = {}  # of another version of foldlog, or damaged: what it led to is lost
        self._known[projection.name] = known
        return known

    def _subject(self, projection: Projection[Any]) -> Any:
        return self._namespace.subject(_FAMILY, projection.name)


def first(projection: Projection[Any]) -> str:
    """The edition that a projection is read from before it was ever switched to another."""
    return _base(projection).removesuffix(_APART)


def belongs(projection: Projection[Any], edition: str) -> bool:
    """Whether an edition is one of this projection's, of whatever version."""
    base = _base(projection)
    return edition == first(projection) or edition.startswith(f"{base}v")


def _base(projection: Projection[Any]) -> str:
    """What the names of its editions begin with. A family's own projection needs no name."""
    if family_of(projection) == projection.name:
        return ""
    return f"u{_APART}{escape(projection.name)}{_APART}"
