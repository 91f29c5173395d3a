"""The arguments of a step as data for the log: what it was done with, and whether that changed."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from foldlog import codec
from foldlog.errors import PayloadError
from foldlog.runs.results import StepRedaction
from foldlog.values import as_plain
from foldlog_projections.runs import runs

LONGEST: Final = 64 * 1024
"""Bytes of encoded arguments that are recorded; of longer ones, their size and digest."""


class Arguments(NamedTuple):
    """Arguments as they are recorded. Equal ones have equal digests; "" for none."""

    encoded: msgspec.Raw
    digest: str


def of_call(
    redaction: StepRedaction,
    step: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Arguments:
    """Return what a step is about to be called with, redacted. Raises RedactionFailed."""
    if not args and not kwargs:
        return Arguments(runs.NIL, "")
    plain = {name: _plain(value) for name, value in _named(function, args, kwargs).items()}
    data = redaction.data("step", runs.STARTED, step, arguments=plain)
    encoded = codec.encode(data, "arguments")
    digest = hashlib.sha256(encoded).hexdigest()
    if len(encoded) > LONGEST:
        encoded = codec.encode({"bytes": len(encoded), "sha256": digest}, "arguments")
    return Arguments(msgspec.Raw(encoded), digest)


def _named(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by the names of the function's parameters, where it has a signature."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # calling it says what is wrong, if anything is
        return {**{str(n): value for n, value in enumerate(args)}, **kwargs}
    return dict(bound)


def _plain(value: Any) -> Any:
    """A value as the log can hold it; of an object that it cannot hold, the type's name."""
    try:
        plain = as_plain(value, "arguments")
        codec.encode(plain, "arguments")
    except PayloadError:
        if isinstance(value, list | tuple):
            return [_plain(each) for each in value]
        if isinstance(value, Mapping):
            return {str(key): _plain(each) for key, each in value.items()}
        return f"<{type(value).__qualname__}>"
    return plain
