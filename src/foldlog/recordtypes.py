"""The types of a kind's records: which of their fields hold content, large values, or neither."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, Final, TypeVar, cast

import msgspec
from msgspec.inspect import AnyType, DictType, ListType, Metadata, StructType, Type, UnionType

from foldlog.envelope import Recorded
from foldlog.errors import ConfigurationError

T = TypeVar("T")

Content = Annotated[T, msgspec.Meta(extra={"content": True})]
"""The type of a record's field that holds what a user wrote: `redact=` sees it, and nothing else.

All other fields are ids, names, numbers and times.
"""

Incidental = Annotated[T, msgspec.Meta(extra={"incidental": True})]
"""The type of a record's field that tells when or from where something was saved.

It is not content, so that a repeat with another one is a repeat.
"""

Blob = Annotated[str, msgspec.Meta(extra={"blob": True})]
"""The type of a record's field that names a large value of its view; "" for none.

`store.blobs.put` stores the value and returns the name. It goes when the view is removed.
`redact=` does not see the bytes: redact them before they are stored.
"""

_NIL: Final = msgspec.Raw(b"\xc0")
_TYPE: Final = re.compile(r"[a-z][a-z_.]{0,63}")


def fields_of(*names: str, of: type[msgspec.Struct] | None = None) -> Callable[[Recorded], Any]:
    """Return a function that decodes these fields of an envelope's record, and nothing else.

    The fields hold strings, integers or None. One name gives its value, several give a tuple.

    Args:
        of: the record's struct. It says what a field that a record leaves out holds.
    """
    decode, values = _fields_decoder(names, of), attrgetter(*names)
    return lambda envelope: values(decode(envelope.payload))


def fields_of_payload(*names: str, of: type[msgspec.Struct]) -> Callable[[bytes], tuple[Any, ...]]:
    """Return a function that decodes these fields of an encoded record, and nothing else."""
    decode = _fields_decoder(names, of)
    return lambda payload: msgspec.structs.astuple(decode(payload))


def _fields_decoder(
    names: tuple[str, ...], of: type[msgspec.Struct] | None
) -> Callable[[bytes], Any]:
    declared = {} if of is None else {each.name: each for each in msgspec.structs.fields(of)}
    fields = [(name, str | int | None, _as_declared(declared.get(name))) for name in names]
    made = msgspec.defstruct("Fields", fields, gc=False, kw_only=True)
    return msgspec.msgpack.Decoder(made).decode


def _as_declared(field: msgspec.structs.FieldInfo | None) -> Any:
    if field is None or field.default is msgspec.NODEFAULT:
        return msgspec.field(name=field.encode_name if field else None)
    return msgspec.field(default=msgspec.to_builtins(field.default), name=field.encode_name)


class RecordType:
    """One type of a kind's records.

    `schema` is its struct; `is_redacted` says that its content is redacted before the record is
    made. Fields are looked at when first asked for: a program uses few of all types.
    """

    def __init__(self, schema: type[msgspec.Struct], redacted: tuple[str, ...] | None) -> None:
        self.schema = schema
        self.is_redacted: bool = redacted is not None
        self._redacted = redacted

    @cached_property
    def content(self) -> tuple[str, ...]:
        """The values that `redact=` sees."""
        return self._fields_with(_is_content) if self._redacted is None else self._redacted

    @cached_property
    def open_fields(self) -> tuple[str, ...]:
        """The fields that hold values of any kind."""
        return self._fields_with(_holds_anything)

    @cached_property
    def blobs(self) -> Callable[[bytes], tuple[str, ...]] | None:
        """Returns the names of the large values that an encoded record holds; None if none can."""
        names = self._fields_with(lambda found: _is_marked(found, "blob"))
        if not names:
            return None
        found = fields_of_payload(*names, of=self.schema)
        return lambda payload: tuple(name for name in found(payload) if name)

    def digest_without(self, names: tuple[str, ...]) -> Callable[[bytes], int]:
        """Return what digests an encoded record, what is incidental and `names` left out."""
        fields = cast(StructType, msgspec.inspect.type_info(self.schema)).fields
        kept = [f for f in fields if f.name not in names and not _is_marked(f.type, "incidental")]
        if len(kept) == len(fields):
            return zlib.crc32
        made = msgspec.defstruct(
            "Kept",
            [(f.name, msgspec.Raw, msgspec.field(default=_NIL, name=f.encode_name)) for f in kept],
            gc=False,
        )
        decode, encode = msgspec.msgpack.Decoder(made).decode, msgspec.msgpack.Encoder().encode

        def digest(payload: bytes) -> int:
            try:
                return zlib.crc32(encode(decode(payload)))
            except (msgspec.MsgspecError, RecursionError):  # the next decoder says so
                return zlib.crc32(payload)

        return digest

    def _fields_with(self, predicate: Callable[[Type], bool]) -> tuple[str, ...]:
        fields = cast(StructType, msgspec.inspect.type_info(self.schema)).fields
        return tuple(field.name for field in fields if predicate(field.type))


def record_type(
    type_: str, schema: type[msgspec.Struct], redacted: tuple[str, ...] | None
) -> RecordType:
    """Return a type of records. Raises ConfigurationError: it cannot be one."""
    if not _TYPE.fullmatch(type_):
        raise ConfigurationError(f"a record's type is like task.saved, not {type_!r:.80}")
    if not (isinstance(schema, type) and issubclass(schema, msgspec.Struct)):
        raise ConfigurationError(f"{type_}: its records are msgspec structs, not {schema!r:.80}")
    return RecordType(schema, redacted)


def _is_content(found: Type) -> bool:
    return _is_marked(found, "content")


def _is_marked(found: Type, mark: str) -> bool:
    return isinstance(found, Metadata) and bool((found.extra or {}).get(mark))


def _holds_anything(found: Type) -> bool:
    """Whether a field's type lets in values that MessagePack has no types for."""
    match found:
        case AnyType():
            return True
        case Metadata(type=inner) | DictType(value_type=inner) | ListType(item_type=inner):
            return _holds_anything(inner)
        case UnionType(types=inners):
            return any(map(_holds_anything, inners))
    return False
