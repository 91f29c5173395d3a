"""Artifacts as bytes, and back: by a codec that is named beside them.

Bytes, text and what `foldlog.codec` holds go by themselves and come back exactly. "json" is for
artifacts that other programs read. "pickle" takes any object and, when it is read, can run any
code that its writer chose: it is used only where the caller has named it, for reading as well.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from foldlog import codec
from foldlog.errors import ConfigurationError, PayloadError

CODECS: Final = ("bytes", "text", "msgpack", "json", "pickle")
_SUITED: Final[dict[type, str]] = {bytes: "bytes", str: "text"}


class Encoded(NamedTuple):
    """An artifact's bytes, and the codec that made them."""

    codec: str
    data: bytes

    @property
    def artifact_id(self) -> str:
        """An id that follows from what the artifact is: the same bytes as text are another."""
        return hashlib.sha256(self.codec.encode() + b"\0" + self.data).hexdigest()


def encode(artifact: Any, name: str | None = None) -> Encoded:
    """Return an artifact as bytes, by the codec named or the one that suits it.

    Raises:
        PayloadError: that codec cannot hold it.
        ConfigurationError: there is no such codec.
    """
    if name is None:
        name = (
            "bytes" if type(artifact) is bytes else "text" if type(artifact) is str else "msgpack"
        )
    return Encoded(name, _write[checked(name)](artifact))


def decode(encoded: Encoded, opted_in: str | None) -> Any:
    """Return the artifact that `encode` was given.

    Raises:
        ConfigurationError: it is a pickle, and the caller has not opted in; or a codec of a newer
            version.
        ValueError, msgspec.MsgspecError: the bytes are not of that codec. A pickle may raise
            anything.
    """
    if encoded.codec == "pickle" and opted_in != "pickle":
        raise ConfigurationError(
            "this artifact is a pickle, which can run code when it is read: if you trust whoever "
            'saved it, read it with artifacts.with_codec("pickle")'
        )
    return _read[checked(encoded.codec)](encoded.data)


def checked(name: str) -> str:
    """Return the name of a codec.

    Raises:
        ConfigurationError: there is none of that name.
    """
    if name not in CODECS:
        raise ConfigurationError(f"a codec is one of {', '.join(CODECS)}, not {name!r:.80}")
    return name


def _write_bytes(artifact: Any) -> bytes:
    if not isinstance(artifact, bytes | bytearray | memoryview):
        raise PayloadError("artifact", f"bytes are needed, not {type(artifact).__qualname__}")
    return bytes(artifact)


def _write_text(artifact: Any) -> bytes:
    if not isinstance(artifact, str):
        raise PayloadError("artifact", f"text is needed, not {type(artifact).__qualname__}")
    try:
        return artifact.encode()
    except UnicodeEncodeError as error:
        raise PayloadError("artifact", f"a lone surrogate at character {error.start}") from None


def _write_json(artifact: Any) -> bytes:
    try:
        data = msgspec.json.encode(artifact)
        is_whole = bool(msgspec.json.decode(data) == artifact)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise PayloadError("artifact", f"no JSON: {error}") from error
    if not is_whole:
        raise PayloadError("artifact", "JSON would not give it back as it is")
    return data


def _write_pickle(artifact: Any) -> bytes:
    try:
        return pickle.dumps(artifact, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as fault:  # its `__reduce__` is the caller's code
        raise PayloadError("artifact", f"no pickle: {type(fault).__name__}: {fault}") from fault


_write: Final[dict[str, Callable[[Any], bytes]]] = {
    "bytes": _write_bytes,
    "text": _write_text,
    "msgpack": lambda artifact: codec.encode(artifact, "artifact"),
    "json": _write_json,
    "pickle": _write_pickle,
}

_read: Final[dict[str, Callable[[bytes], Any]]] = {
    "bytes": lambda data: data,
    "text": lambda data: data.decode(),
    "msgpack": codec.decode,
    "json": msgspec.json.decode,
    "pickle": pickle.loads,  # `decode` lets nobody come here who has not named it
}
