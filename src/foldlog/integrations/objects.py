"""What a framework's objects are in the log, and what becomes of them again.

Objects as data, without pickle: classes are named, and a reader makes objects of those classes only
that it was given. Decoding imports nothing. A body that is no longer what the framework can read,
because `redact=` has replaced it or another version has written it, is `Unreadable`.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from enum import Enum
from types import GenericAlias
from typing import Any, Final, TypeVar
from uuid import UUID

from foldlog.errors import FoldlogError, PayloadError, shown
from foldlog_projections.messages import Message

T = TypeVar("T")

_NATIVE: Final = frozenset(
    {
        *(type(None), bool, int, float, str, bytes, Decimal, UUID),
        *(dt.datetime, dt.date, dt.time, dt.timedelta),
    }
)
"""What the log holds by itself."""

_CONTAINERS: Final = (list, tuple, set, frozenset, dict)
_PLAIN: Final = {
    f"{each.__module__}:{each.__qualname__}": each for each in (*_NATIVE, *_CONTAINERS)
}
_NEW: Final = object().__reduce_ex__(2)[0]
"""How `copy` makes an object without calling its class."""


class Unreadable(FoldlogError, ValueError):
    """What is stored is nothing that the framework can read; `what` says what it is, and where.

    `redact=` has replaced it, or another version of the framework has written it. The cause is what
    the framework raised.
    """

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(
            f"{what} cannot be read: {reason}; redact= has replaced it, or another version of the "
            "framework has written it"
        )
        self.what = what
        self.reason = reason


def read_as(
    read: Callable[[Any], T], body: Any, what: str, error: type[Unreadable] = Unreadable
) -> T:
    """Return what a framework makes of a stored body.

    Raises:
        Unreadable: it makes nothing of it; `error` is what its users expect beside that.
    """
    try:
        return read(body)
    except FoldlogError:
        raise
    except Exception as fault:  # whatever a framework's reader raises
        raise error(what, f"{type(fault).__name__}: {fault}") from fault


def items_of(given: Any, kind: type, name: str, what: str) -> list[Any]:
    """Return the items of a list. Raises PayloadError: it is none, or one is of another kind."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise PayloadError(name, f"{shown(given)} is no list of {name}")
    for n, each in enumerate(given):
        if not isinstance(each, kind):
            raise PayloadError(f"{name}[{n}]", f"{shown(each)} is no {what}")
    return list(given)


def said_in(session_id: str, messages: Sequence[Message], format: str) -> list[Message]:
    """Return the messages that still are mappings: of others `redact=` has left nothing.

    Raises:
        PayloadError: some are not of this format: the session is another framework's.
    """
    for each in messages:
        if each.format != format:
            whose = f"{shown(session_id)} has messages of {shown(each.format)}"
            raise PayloadError("session_id", f"{whose}: give this one an id of its own")
    return [each for each in messages if isinstance(each.body, dict)]


class Objects:
    """Makes data of values, and values of data.

    An object is its class's name and its state, as `copy.copy` takes it: what `__init__` does is
    not done again. A class that has `__setstate__` is asked to restore itself.

    Args:
        types: the classes that there may be objects of.
        package: a package whose classes there may be objects of, once it has imported them.
        refuse: makes the error for a class that is none of these.
    """

    def __init__(
        self,
        types: Iterable[type],
        package: str,
        refuse: Callable[[str], Exception],
    ) -> None:
        self._types = {_name(each): each for each in types}
        self._package = package
        self._refuse = refuse

    def encode(self, value: Any, path: str) -> Any:
        """Return a value as data. Raises PayloadError, with the path, if it is of another class."""
        cls = type(value)
        if cls in _NATIVE:
            return value
        if cls is list or cls is tuple:
            return cls(self.encode(each, f"{path}[{i}]") for i, each in enumerate(value))
        if cls is set or cls is frozenset:
            items = [self.encode(each, f"{path}{{}}") for each in value]
            return {"$set": items, "frozen": cls is frozenset}
        if cls is dict:
            data = {key: self.encode(each, f"{path}.{key}") for key, each in value.items()}
            marked = any(isinstance(key, str) and key.startswith("$") for key in data)
            return {"$dict": data} if marked else data
        if isinstance(value, GenericAlias) and value.__origin__ in _CONTAINERS:
            args = [self.encode(each, path) for each in value.__args__]
            return {"$generic": _name(value.__origin__), "args": args}
        named = value if isinstance(value, type) else cls
        if _PLAIN.get(_name(named)) is not named and self._find(_name(named)) is not named:
            raise PayloadError(path, f"{_name(named)} cannot be stored: name it in types=[...]")
        if isinstance(value, type):
            return {"$class": _name(value)}
        if isinstance(value, Enum):
            return {"$enum": _name(cls), "value": self.encode(value.value, path)}
        return {"$object": _name(cls), "state": self.encode(self._state(value, path), path)}

    def decode(self, data: Any) -> Any:
        """Return the value, a new object. Raises what `refuse` makes, for an unknown class."""
        if isinstance(data, list | tuple):
            return type(data)(map(self.decode, data))
        if not isinstance(data, dict):
            return data
        if "$set" in data:
            return (frozenset if data["frozen"] else set)(map(self.decode, data["$set"]))
        if "$generic" in data:
            origin: Any = _PLAIN[data["$generic"]]
            return GenericAlias(origin, tuple(map(self.decode, data["args"])))
        if "$class" in data:
            return _PLAIN.get(data["$class"]) or self._class(data["$class"])
        if "$enum" in data:
            return self._class(data["$enum"])(self.decode(data["value"]))
        if "$object" in data:
            return _restored(self._class(data["$object"]), self.decode(data["state"]))
        return {key: self.decode(each) for key, each in data.get("$dict", data).items()}

    def _class(self, name: str) -> Any:
        found = self._find(name)
        if found is None:
            raise self._refuse(name)
        return found

    def _find(self, name: str) -> type | None:
        """The class of a name, if it may be used. Nothing is imported."""
        if name in self._types:
            return self._types[name]
        module, _, path = name.partition(":")
        if not f"{module}.".startswith((f"{self._package}.", f"{self._package}_")):
            return None
        found: Any = sys.modules.get(module)
        for part in path.split("."):
            found = getattr(found, part, None)
        return found if isinstance(found, type) and _name(found) == name else None

    def _state(self, value: Any, path: str) -> Any:
        """An object's attributes: a dict, or what its class makes of them."""
        reduced = value.__reduce_ex__(2)
        plain = isinstance(reduced, tuple) and reduced[:2] == (_NEW, (type(value),))
        if not plain or any(each is not None for each in reduced[3:]):
            raise PayloadError(path, f"{_name(type(value))} has a state of its own kind")
        return reduced[2]


def _restored(cls: type, state: Any) -> Any:
    made: Any = object.__new__(cls)
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return made
    for attributes in state if isinstance(state, tuple) else (state,):
        for name, value in (attributes or {}).items():
            object.__setattr__(made, name, value)
    return made


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"
