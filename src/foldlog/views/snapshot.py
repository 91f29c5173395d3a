"""A whole fold as bytes and back, and the snapshot that holds them: where it ends, and of what."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from foldlog.envelope import Position
from foldlog.errors import AppendFailed
from foldlog.kind import Kind
from foldlog.log.snapshots import Unusable
from foldlog.upcasting import UPCASTERS
from foldlog.views.fold import Fold
from foldlog_projections.fold import Folded

S = TypeVar("S")

FORMAT: Final = 6 if sys.byteorder == "little" else -6
"""Changes with what a snapshot looks like; ordinals are as this machine has them."""

_FIELDS: Final = [each.name for each in dataclasses.fields(Folded)]

_encode: Final = msgspec.msgpack.Encoder().encode


class Restored(NamedTuple, Generic[S]):
    """A fold as a snapshot has it. It stands while the log holds `end`.

    `state_bytes`: what the state took there.
    """

    folded: Folded[S]
    end: Position
    state_bytes: int


class About(msgspec.Struct, array_like=True, frozen=True):
    """What a snapshot is of. One that differs in any of it is of no use.

    `fields` are those of a fold.
    """

    format: int
    identity: str
    projection: str
    version: int
    payload_version: int
    fields: list[str]


class Snapshot(msgspec.Struct, array_like=True, frozen=True):
    """A fold up to `end`; `folded` is what `keep` made of it."""

    about: About
    end: Position
    folded: bytes


_decode_snapshot: Final = msgspec.msgpack.Decoder(Snapshot).decode
_decode_folded: Final = msgspec.msgpack.Decoder(Folded[bytes]).decode


def is_keepable(projection: Kind[Any]) -> bool:
    """Whether there are snapshots of a projection's folds."""
    return projection.keep is not None and not projection.latest_only


def kept(projection: Kind[S], folded: Folded[S]) -> Folded[bytes]:
    """Return a fold with its state as bytes.

    Raises:
        AppendFailed: the projection cannot keep its state.
    """
    if projection.keep is None:
        raise AppendFailed(f"{projection.name} says no way to keep its state")
    try:
        state = projection.keep(folded.state)
    except Exception as error:  # one of users' own may raise anything
        raise AppendFailed(f"{projection.name} cannot keep it: {error!r}") from error
    found: Any = folded
    return dataclasses.replace(found, state=state)


def keep(projection: Kind[S], folded: Folded[S]) -> bytes:
    """Return a whole fold as bytes. Errors as `kept`."""
    return _encode(kept(projection, folded))


def restore(projection: Kind[S], kept: bytes) -> tuple[Folded[S], int]:
    """Return the fold that was kept as these bytes, and how many of them its state took.

    Raises:
        Unusable: they are no such fold.
    """
    assert projection.restore is not None, "it is keepable"
    try:
        found = _decode_folded(kept)
        state = projection.restore(found.state)
    except Exception as error:  # one of users' own may raise anything
        raise Unusable(f"{projection.name} cannot restore it: {error!r}") from error
    folded: Folded[Any] = found
    size, folded.state = len(found.state), state
    return folded, size


def pack(fold: Fold[Any], end: Position, identity: str) -> bytes:
    """Return the snapshot of a fold that ends there. Errors as `kept`."""
    folded = keep(fold.projection, fold.folded)
    return _encode(Snapshot(_about(fold.projection, identity), end, folded))


def unpack(projection: Kind[S], data: bytes, identity: str) -> Restored[S] | None:
    """Return what a snapshot holds; None if it is of another version, or of another log.

    Raises:
        Unusable: it is no snapshot of such a view.
    """
    try:
        found = _decode_snapshot(data)
    except msgspec.MsgspecError:
        return None  # whole, so of a version that writes it otherwise
    if found.about != _about(projection, identity):
        return None
    folded, size = restore(projection, found.folded)
    return Restored(folded, found.end, size)


def _about(projection: Kind[Any], identity: str) -> About:
    versions = projection.version, UPCASTERS.fingerprint
    return About(FORMAT, identity, projection.name, *versions, _FIELDS)
