"""How the states of folds are kept in snapshots: as bytes, and back.

A projection that has `keep` and `restore` beside `initial` and `apply` is `Kept`; one that has
not is always folded from the log. `restore(keep(state))` equals `state` and shares nothing with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

S = TypeVar("S")
K = TypeVar("K")
V = TypeVar("V")


@runtime_checkable
class Kept(Protocol[S]):
    """A projection whose state fits a snapshot."""

    def keep(self, state: S, /) -> bytes:
        """The state as bytes."""
        ...

    def restore(self, kept: bytes, /) -> S:
        """The state that `keep` was given.

        Raises:
            msgspec.MsgspecError: the bytes are of no such state.
        """
        ...


_encoder = msgspec.msgpack.Encoder()


def as_type(type_: type[S]) -> tuple[Callable[[S], bytes], Callable[[bytes], S]]:
    """`keep` and `restore` for states of a type that msgspec encodes and decodes."""
    return _encoder.encode, msgspec.msgpack.Decoder(type_).decode


def as_pairs(
    key: type[K], value: type[V]
) -> tuple[Callable[[dict[K, V]], bytes], Callable[[bytes], dict[K, V]]]:
    """The same for a dict whose keys are structs, kept as pairs in the dict's order."""
    decoder: msgspec.msgpack.Decoder[list[tuple[K, V]]] = msgspec.msgpack.Decoder(
        list[tuple[key, value]]  # type: ignore[valid-type]  # a type made at run time
    )

    def keep(state: dict[K, V], /) -> bytes:
        return _encoder.encode(list(state.items()))

    def restore(kept: bytes, /) -> dict[K, V]:
        return dict(decoder.decode(kept))

    return keep, restore
