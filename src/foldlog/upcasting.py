"""Upcasters: functions that make a payload of one version one of the next.

A log is never rewritten, so it holds payloads of every version that was ever written. A program
knows the newest; what is older is brought to it, a version at a time, whenever it is read.

    @foldlog.upcaster("tool.priced", 1)
    def in_cents(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "cents": round(payload.pop("dollars") * 100)}

From then on version 2 is the newest of that type. Register when a module is imported, before a
store reads: what was folded already stays as it is. A type without upcasters is at version 1.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from foldlog.envelope import Recorded
from foldlog.errors import ConfigurationError, MissingUpcaster, Misuse

Upcast = Callable[[Any], Any]
"""Makes a payload, in MessagePack's types, one of the next version. It may change what it gets.

What a user supplied may hold extensions of MessagePack (`msgspec.msgpack.Ext`): leave them alone.
"""

F = TypeVar("F", bound=Upcast)

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder()


class Upcasters:
    """Upcasters by type and version. `newest` are the versions of those types that have any."""

    def __init__(self) -> None:
        self._steps: dict[tuple[str, int], Upcast] = {}
        self.newest: dict[str, int] = {}

    def register(self, type: str, version: int) -> Callable[[F], F]:
        """Return a decorator for a function that makes version `version + 1` of a payload.

        Args:
            type: the type of the record.
            version: the version that the function reads.

        Raises:
            Misuse: there is such a function already, or the version is none.
        """
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            raise ConfigurationError(f"{type}: a version is 1 or more, not {version!r:.80}")

        def decorate(upcast: F) -> F:
            if (type, version) in self._steps:
                raise Misuse(f"{type} version {version} has two upcasters")
            self._steps[type, version] = upcast
            self.newest[type] = max(self.newest.get(type, 1), version + 1)
            return upcast

        return decorate

    def bring_up(self, envelope: Recorded) -> Recorded:
        """Return an envelope with its payload in the newest version of its type.

        Args:
            envelope: as the log holds it.

        Raises:
            MissingUpcaster: a step is missing, or the version is newer than this program knows.
            ValueError: the payload cannot be read, or an upcaster fails on it.
        """
        newest = self.newest.get(envelope.type, 1)
        version = envelope.v
        if version == newest:
            return envelope
        payload = _decoder.decode(envelope.payload) if version < newest else None
        while version != newest:
            upcast = self._steps.get((envelope.type, version))
            if upcast is None:
                where = envelope.seq, envelope.index
                raise MissingUpcaster(envelope.type, version, *where, newest)
            try:
                payload = upcast(payload)
            except Exception as fault:  # a foreign function may raise anything
                what = f"the upcaster from {envelope.type} version {version}"
                raise msgspec.ValidationError(f"{what}: {fault!r}") from fault
            version += 1
        return msgspec.structs.replace(envelope, v=version, payload=_encoder.encode(payload))

    @property
    def fingerprint(self) -> int:
        """A number that changes with the set of upcasters: 1 if there are none."""
        if not self.newest:
            return 1
        return zlib.crc32(repr(sorted(self.newest.items())).encode())


UPCASTERS: Final = Upcasters()
"""Those of this program."""

upcaster: Final = UPCASTERS.register
