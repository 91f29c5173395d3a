"""Artifacts as bytes, and back, by a codec whose name is stored beside them.

A pickle can run any code when it is read: the caller must name "pickle" to write and to read it.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from foldlog import codec
from foldlog.errors import ConfigurationError, FoldlogError, PayloadError


class Encoded(NamedTuple):
    """An artifact's bytes, and the codec that made them."""

    codec: str
    data: bytes

    @property
    def artifact_id(self) -> str:
        """An id made of codec and content: bytes and text of the same content differ."""
        return hashlib.sha256(self.codec.encode() + b"\0" + self.data).hexdigest()


def encode(artifact: Any, name: str | None = None) -> Encoded:
    """Return an artifact as bytes, by the named codec or by one that suits its type.

    Raises:
        PayloadError: that codec cannot hold it. ConfigurationError: there is no such codec.
    """
    name = checked(name or _SUITED.get(type(artifact), "msgpack"))
    try:
        return Encoded(name, _CODECS[name][0](artifact))
    except FoldlogError:
        raise
    except Exception as fault:  # a pickle's `__reduce__` is the caller's code
        reason = f"{name} cannot hold it: {type(fault).__name__}: {fault}"
        raise PayloadError("artifact", reason) from fault


def decode(encoded: Encoded, opted_in: str | None) -> Any:
    """Return the artifact that `encode` was given; `opted_in` is the codec that the caller named.

    Raises:
        ConfigurationError: it is a pickle, and the caller has not opted in; or an unknown codec.
        ValueError, msgspec.MsgspecError: other bytes. A pickle may raise anything.
    """
    if encoded.codec == "pickle" and opted_in != "pickle":
        raise ConfigurationError(
            "this artifact is a pickle, which can run code when it is read: if you trust its "
            'writer, read it with artifacts.with_codec("pickle")'
        )
    return _CODECS[checked(encoded.codec)][1](encoded.data)


def checked(name: str) -> str:
    """Return the name of a codec. Raises ConfigurationError if there is none of that name."""
    if name not in _CODECS:
        raise ConfigurationError(f"a codec is one of {', '.join(_CODECS)}, not {name!r:.80}")
    return name


def _as_json(artifact: Any) -> bytes:
    data = msgspec.json.encode(artifact)
    if msgspec.json.decode(data) != artifact:
        raise ValueError("it would not come back as it is")
    return data


_SUITED: Final[dict[type, str]] = {bytes: "bytes", str: "text"}

_CODECS: Final[dict[str, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]]] = {
    "bytes": (lambda artifact: bytes(memoryview(artifact)), bytes),
    "text": (str.encode, bytes.decode),
    "msgpack": (lambda artifact: codec.encode(artifact, "artifact"), codec.decode),
    "json": (_as_json, msgspec.json.decode),
    # `decode` refuses it to callers that have not named it.
    "pickle": (lambda artifact: pickle.dumps(artifact, pickle.HIGHEST_PROTOCOL), pickle.loads),
}
