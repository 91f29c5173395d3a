"""Models and the records that hold them: declared once, and read in both directions."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from pydantic import BaseModel

from foldlog.envelope import Recorded
from foldlog.store.payloads import drafting, enum_text, finite, mapping, time_text
from foldlog.store.restoring import FAULTS, decoder, restoring
from foldlog.subjects import checked_id

M = TypeVar("M")
R = TypeVar("R", bound=msgspec.Struct)


class Field(NamedTuple):
    """How a field's value becomes the record's, given its name too, and how it is read back."""

    write: Callable[[Any, str], Any]
    read: Callable[[Any], Any] | None = None


ID: Final = Field(checked_id)
SECONDS: Final = Field(finite)
MAPPING: Final = Field(mapping)
TIME: Final = Field(time_text, dt.datetime.fromisoformat)


def member_of(members: type[Enum]) -> Field:
    """A field that holds a member of a string enum."""
    return Field(enum_text(members), members)


class Mapper(Generic[M, R]):
    """Turns objects of a model into records, and back. Both have fields of the same names.

    A record may have more fields, with defaults; they are left as they are.

    Args:
        name: what the path of an error begins with where the object as a whole is at fault.
        fields: those that are checked or converted. Every other value is kept as it is.
    """

    def __init__(self, name: str, model: type[M], record: type[R], **fields: Field) -> None:
        self._name = name
        self._write: Callable[[M], R] = _compiled_writer(model, record, fields)
        self._read: Callable[[Any], M] = _compiled_reader(model, fields)
        self._decode = decoder(record).decode
        self._guarded = restoring(lambda item: self._read(self._decode(item.payload)))

    def record(self, given: M) -> R:
        """Return the record that saves an object.

        Raises:
            PayloadError, InvalidId: a field cannot be held.
        """
        try:
            return self._write(given)
        except FAULTS:
            with drafting(self._name):
                raise

    def restore(self, item: Recorded) -> M:
        """Return the object that an envelope holds: a new one, the caller's own.

        Raises:
            LogCorrupt: the envelope holds something else.
        """
        return self._guarded(item)

    def restore_all(self, items: Iterable[Recorded]) -> list[M]:
        """As `restore`, of many."""
        items, read, decode = list(items), self._read, self._decode
        try:
            return [read(decode(item.payload)) for item in items]
        except FAULTS:
            return [self.restore(item) for item in items]  # raises at the one that is at fault


# A record is made for every save, and an object for every item of a list: so these functions are
# compiled to what one would write by hand, field by field.


def _compiled_writer(model: type[Any], record: type[Any], fields: dict[str, Field]) -> Any:
    values = (
        f"{name}=_{name}(given.{name}, {name!r})" if name in fields else f"{name}=given.{name}"
        for name in record.__struct_fields__
        if name in _names(model)
    )
    scope = {f"_{name}": field.write for name, field in fields.items()}
    return eval(f"lambda given: record({', '.join(values)})", {"record": record, **scope})


def _names(model: type[Any]) -> set[str]:
    if issubclass(model, BaseModel):
        return set(model.model_fields)
    return {each.name for each in dataclasses.fields(model)}


def _compiled_reader(model: type[Any], fields: dict[str, Field]) -> Any:
    scope = {f"_{name}": field.read for name, field in fields.items() if field.read}

    def value(name: str) -> str:
        return f"_{name}(saved.{name})" if f"_{name}" in scope else f"saved.{name}"

    if not issubclass(model, BaseModel):
        values = (f"{each.name}={value(each.name)}" for each in dataclasses.fields(model))
        return eval(f"lambda saved: model({', '.join(values)})", {"model": model, **scope})
    # Copying an object costs a fraction of constructing one; neither validates.
    blank = model.model_construct(**dict.fromkeys(model.model_fields))
    values = (f"{name!r}: {value(name)}" for name in model.model_fields)
    copied = f"lambda saved: copy(update={{{', '.join(values)}}})"
    return eval(copied, {"copy": blank.model_copy, **scope})
