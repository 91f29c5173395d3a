"""Effects: changes of memory as data, so that who decides on them need not be who may write.

The vocabulary is layer0's: the four effects that concern memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

from foldlog.errors import PayloadError
from foldlog.scoped.models import MemoryLink, StoreOptions, checked_link
from foldlog.scoped.scope import Scope, checked_scope
from foldlog.subjects import checked_id


class _WriteMemory(msgspec.Struct, frozen=True):
    """Write `value` to a key, with hints."""

    scope: Scope
    key: str
    value: Any
    options: StoreOptions = StoreOptions()


class _DeleteMemory(msgspec.Struct, frozen=True):
    """Delete a key."""

    scope: Scope
    key: str


class _LinkMemory(msgspec.Struct, frozen=True):
    """Make a link."""

    scope: Scope
    link: MemoryLink


class _UnlinkMemory(msgspec.Struct, frozen=True):
    """Remove a link."""

    scope: Scope
    from_key: str
    to_key: str
    relation: str


AnyEffect: TypeAlias = _WriteMemory | _DeleteMemory | _LinkMemory | _UnlinkMemory


class Effect:
    """The effects on memory, and their JSON: `ScopedStore.apply` takes any of them."""

    WriteMemory = _WriteMemory
    DeleteMemory = _DeleteMemory
    LinkMemory = _LinkMemory
    UnlinkMemory = _UnlinkMemory

    @staticmethod
    def to_json(effect: AnyEffect) -> dict[str, Any]:
        """Return the form that layer0 writes: an object with its `type` and `scope`.

        Args:
            effect: the effect.
        """
        form: dict[str, Any] = {"type": _TYPES[type(effect)], "scope": effect.scope.to_json()}
        if isinstance(effect, _WriteMemory):
            return form | {"key": effect.key, "value": effect.value} | effect.options.to_json()
        if isinstance(effect, _LinkMemory):
            return form | {"link": effect.link.to_json()}
        fields = [name for name in effect.__struct_fields__ if name != "scope"]
        return form | {name: getattr(effect, name) for name in fields}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> AnyEffect:
        """Return the effect that `to_json`, or layer0, wrote.

        Args:
            data: the effect, or an object that has it as `kind` beside `meta`, which is ignored.

        Raises:
            PayloadError: it is no effect on memory.
            InvalidId: a key is empty.
        """
        if isinstance(data, Mapping) and isinstance(data.get("kind"), Mapping):
            data = data["kind"]
        if not isinstance(data, Mapping):
            raise PayloadError("effect", f"{data!r:.80} is not a mapping")
        scope = data.get("scope")
        try:
            match data.get("type"):
                case "write_memory":
                    options = StoreOptions.from_json(data)
                    key = checked_id(data["key"], "key")
                    return _WriteMemory(Scope.from_json(scope), key, data["value"], options)
                case "delete_memory":
                    return _DeleteMemory(Scope.from_json(scope), checked_id(data["key"], "key"))
                case "link_memory":
                    link = MemoryLink.from_json(data["link"])
                    return _LinkMemory(Scope.from_json(scope), link)
                case "unlink_memory":
                    ends = (data["from_key"], data["to_key"], data["relation"])
                    return _UnlinkMemory(Scope.from_json(scope), *ends)
                case other:
                    raise PayloadError("effect.type", f"{other!r:.80} is no effect on memory")
        except KeyError as error:
            raise PayloadError("effect", f"{error} is missing") from None


def checked_effect(effect: AnyEffect) -> AnyEffect:
    """Return an effect as it is, or raise PayloadError if it is none."""
    if type(effect) not in _TYPES:
        raise PayloadError("effect", f"{effect!r:.80} is no effect on memory")
    checked_scope(effect.scope)
    if isinstance(effect, _LinkMemory):
        checked_link(effect.link)
    return effect


_TYPES: Final[dict[type, str]] = {
    _WriteMemory: "write_memory",
    _DeleteMemory: "delete_memory",
    _LinkMemory: "link_memory",
    _UnlinkMemory: "unlink_memory",
}
