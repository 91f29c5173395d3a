"""Values and queries as text for a search. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_TEXT: Final = 256 * 1024
"""Characters of a value that can be found."""

_MAX_TERMS: Final = 64
_MAX_INTEGER_BITS: Final = 2048
_TERM: Final = re.compile(r"[^\W_]+")


def text_of(value: Any) -> str:
    """A value as text: its strings, numbers and names of fields, a line for each field."""
    parts: list[str] = []
    size = 0
    for part in _parts(value):
        parts.append(part)
        size += len(part) + 1
        if size > MAX_TEXT:
            break
    return "\n".join(parts)[:MAX_TEXT]


def terms(query: str) -> list[str]:
    """The words of a query, each once."""
    # Not casefold(): FTS5 folds letter by letter, and would not find "strasse" for "Straße".
    return list(dict.fromkeys(term.lower() for term in _TERM.findall(query)))[:_MAX_TERMS]


def expression(words: list[str]) -> str:
    """The words as an expression of FTS5: whatever has at least one of them matches."""
    return " OR ".join(f'"{word}"' for word in words)


def _parts(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _parts(item, str(key))
    elif isinstance(value, list | tuple | set | frozenset):
        if name:
            yield name
        for item in value:
            yield from _parts(item)
    elif value is not None and not isinstance(value, bool | bytes) and not _is_huge(value):
        yield f"{name}: {value}" if name else str(value)
    elif name:
        yield name


def _is_huge(value: Any) -> bool:
    """Whether Python refuses to write an integer out, so that nobody can search for it."""
    return isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS
