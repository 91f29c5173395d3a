"""Payloads as JSON that gives the same bytes again.

What JSON lacks is an object: `{"$bytes": "<base64>"}`, and for an extension type of
`docs/reference/log-format.md` `{"$ext": 2, "text": "..."}` or `{"$ext": 6, "base64": "..."}`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, Final

import msgspec
from msgspec.msgpack import Ext

from foldlog.jsonable import compact

NOT_JSON: Final = (ValueError, TypeError, KeyError, OverflowError, RecursionError)
"""What data that is something else makes code raise; msgspec's errors are ValueErrors."""

_packing: Final = msgspec.msgpack.Encoder()


def as_json(payload: bytes) -> bytes | None:
    """Return a payload as JSON; None if none gives the same bytes again."""
    try:
        value = msgspec.msgpack.decode(payload)
    except NOT_JSON:
        return None
    for form in (_plain, _marked):
        try:
            text = msgspec.json.encode(form(value))
            if from_json(text) == payload:
                return text
        except NOT_JSON:
            continue
    return None


def as_text(payload: bytes) -> str | None:
    """Return a payload as JSON to be read, which need not give its bytes again; None: no payload.

    Where it differs from `as_json`, it is as `foldlog.jsonable` has it.
    """
    exact = as_json(payload)
    if exact is not None:
        return exact.decode()
    try:
        return compact(msgspec.msgpack.decode(payload))
    except NOT_JSON:
        return None


def from_json(text: bytes) -> bytes:
    """Return the payload that `as_json` has turned into this. Raises one of NOT_JSON for others."""
    value = msgspec.json.decode(text)
    return _packing.encode(_unmarked(value) if b'"$' in text else value)


def _plain(value: Any) -> Any:
    return value


def _marked(value: Any) -> Any:
    match value:
        case bytes():
            return {"$bytes": b64encode(value).decode()}
        case Ext():
            data = bytes(value.data)
            if data.isascii() and data.decode().isprintable():
                return {"$ext": value.code, "text": data.decode()}
            return {"$ext": value.code, "base64": b64encode(data).decode()}
        case dict():
            return {key: _marked(each) for key, each in value.items()}
        case list():
            return list(map(_marked, value))
    return value


def _unmarked(value: Any) -> Any:
    match value:
        case {"$bytes": str() as text}:
            return b64decode(text)
        case {"$ext": int() as code, "text": str() as text}:
            return Ext(code, text.encode())
        case {"$ext": int() as code, "base64": str() as text}:
            return Ext(code, b64decode(text))
        case dict():
            return {key: _unmarked(each) for key, each in value.items()}
        case list():
            return list(map(_unmarked, value))
    return value
