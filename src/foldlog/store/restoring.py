"""What the log hands back: payloads decoded, and objects built from them.

Another version may have written a payload, or a disk damaged it. Whatever fails on one is a log
that this program cannot read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from foldlog import codec
from foldlog.envelope import Recorded
from foldlog.errors import LogCorrupt

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

FAULTS: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)
"""What bad data makes code raise, the caller's code included."""

decoder: Final = functools.cache(codec.decoder)
"""The decoder of a record's type."""


def load(type_: type[R], raw: bytes) -> R:
    """Decode a payload."""
    decoded: R = decoder(type_).decode(raw)
    return decoded


def restoring(build: Callable[[Recorded], T]) -> Callable[[Recorded], T]:
    """Make a function that builds an object from an envelope raise LogCorrupt for its faults."""

    @functools.wraps(build)
    def guarded(item: Recorded) -> T:
        try:
            return build(item)
        except FAULTS as fault:
            raise unreadable(item, fault) from fault

    return guarded


def unreadable(item: Recorded, fault: Exception) -> LogCorrupt:
    """The error for a fault of an envelope."""
    reason = f"{item.type} {item.id!r:.80}: {type(fault).__name__}: {fault}"
    return LogCorrupt(item.type, item.seq, reason)
