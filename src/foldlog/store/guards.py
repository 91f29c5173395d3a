"""Where values cross: what callers hand in, and what the log hands back.

Drafting runs the caller's code (properties, `serialise`, a tzinfo); whatever that raises is bad
input. Restoring builds objects from what was written, perhaps by another version; whatever that
raises is a log that this program cannot read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Final, ParamSpec, TypeVar

import msgspec

from foldlog.envelope import Recorded
from foldlog.errors import FoldlogError, LogCorrupt, PayloadError

P = ParamSpec("P")
T = TypeVar("T")

_FAULTS: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    msgspec.MsgspecError,
)


def drafting(what: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Have a pure function that makes envelopes raise nothing but foldlog's errors.

    Its faults become a PayloadError at the path `what`. It must do no I/O: nothing was appended.
    """

    def decorate(make: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(make)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> T:
            try:
                return make(*args, **kwargs)
            except FoldlogError:
                raise
            except _FAULTS as fault:
                raise PayloadError(what, f"{type(fault).__name__}: {fault}") from fault

        return guarded

    return decorate


def all_restored(build: Callable[[Recorded], T], items: Iterable[Recorded]) -> list[T]:
    """`build`, which `restoring` guards, for each of the items at the cost of one guard."""
    items = list(items)
    plain: Callable[[Recorded], T] = getattr(build, "__wrapped__", build)
    try:
        return [plain(item) for item in items]
    except _FAULTS:
        return [build(item) for item in items]  # raises at the one that is at fault


def restoring(build: Callable[[Recorded], T]) -> Callable[[Recorded], T]:
    """Have a function that builds an object from an envelope raise LogCorrupt for its faults."""

    @functools.wraps(build)
    def guarded(item: Recorded) -> T:
        try:
            return build(item)
        except _FAULTS as fault:
            reason = f"{item.type} {item.id!r:.80}: {type(fault).__name__}: {fault}"
            raise LogCorrupt(item.type, item.seq, reason) from fault

    return guarded
