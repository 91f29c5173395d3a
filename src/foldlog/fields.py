"""The fields of records, whichever library their classes are made with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any


def fields_of(value: object) -> dict[str, Any] | None:
    """Return the fields of a record by name, in order; None for what is no record.

    Records are dataclasses, pydantic models, msgspec structs, attrs objects and named tuples.
    """
    kind = type(value)
    names: Iterable[str] | None = None
    if dataclasses.is_dataclass(kind):
        names = (each.name for each in dataclasses.fields(kind))
    elif hasattr(kind, "__attrs_attrs__"):
        names = (each.name for each in kind.__attrs_attrs__)
    else:
        for attribute in ("model_fields", "__struct_fields__", "_fields"):
            names = getattr(kind, attribute, names)
    return None if names is None else {name: getattr(value, name) for name in names}
