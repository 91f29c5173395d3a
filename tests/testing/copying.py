"""Copies of what is saved and loaded, and what tells one content from another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from types import NoneType
from typing import Any, TypeVar

from pydantic import BaseModel

T = TypeVar("T")

_UNCHANGEABLE = (str, int, float, NoneType, datetime, bytes, Enum)


def copied(value: T) -> T:
    """A deep copy, as far as what models and payloads hold can be changed.

    Many times faster than `copy.deepcopy` and `pickle`: the kit asks for very many.
    """
    copy: T = _copied(value)
    return copy


def _copied(value: Any) -> Any:
    if isinstance(value, _UNCHANGEABLE):  # nearly all there is
        return value
    match value:
        case Mapping():
            return {key: _copied(item) for key, item in value.items()}
        case list():
            return [_copied(item) for item in value]
        case tuple():
            return tuple(_copied(item) for item in value)
        case set():
            return set(value)
        case BaseModel():
            return value.model_copy(update=_changeable(vars(value)))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **_changeable(fields_of(value)))
    return value


def _changeable(held: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _copied(item) for name, item in held.items() if not isinstance(item, _UNCHANGEABLE)
    }


def payloads_rewritten(model: Any, change: Callable[[Any], Any]) -> Any:
    """The model with `change` made to its payloads: the dicts and lists it holds."""
    held = vars(model) if isinstance(model, BaseModel) else fields_of(model)
    changed: dict[str, Any] = {}
    for name, value in held.items():
        if isinstance(value, BaseModel):
            changed[name] = payloads_rewritten(value, change)
        elif isinstance(value, dict | list):
            changed[name] = change(value)
    return (
        model.model_copy(update=changed)
        if isinstance(model, BaseModel)
        else replace(model, **changed)
    )


def fields_of(model: Any) -> dict[str, Any]:
    """A dataclass instance's fields, not copied."""
    return {each.name: getattr(model, each.name) for each in fields(model)}


def fingerprint(value: Any) -> str:
    """What tells a saved thing from all others, whatever the order of its keys."""
    return repr(_in_order(value))


def _in_order(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _in_order(value[key]) for key in sorted(value, key=repr)}
        case list() | tuple():
            return type(value)(map(_in_order, value))
        case set() | frozenset():
            return (type(value), sorted(map(repr, value)))
    if is_dataclass(value) and not isinstance(value, type):
        return _in_order(fields_of(value))
    return value
