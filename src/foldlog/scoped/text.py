"""Values and queries as text for a search. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

MAX_TEXT: Final = 256 * 1024
"""Characters of a value that can be found."""

_MAX_TERMS: Final = 64
_MAX_INTEGER_BITS: Final = 2048
_OPENING: Final = 160
_BEFORE: Final = 40
"""Characters of a snippet, and of what it shows before the word that was found."""

_UNSPACED: Final = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Scripts whose words nothing separates, or that join endings to them: Thai, Lao, Burmese, Khmer,
Japanese, Chinese, Korean."""

_MARKED: Final = "\u0300-\u036f\u0591-\u06ed\u0900-\u0dff"
"""Scripts that write signs over, under and around their letters, which Python takes for no part of
a word: accents, Hebrew, Arabic, those of India."""

_TERM: Final = re.compile(rf"(?:[^\W_]|[{_UNSPACED}{_MARKED}])+")
_RUN: Final = re.compile(rf"([{_UNSPACED}]+)")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


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


def parts_of(text: str) -> str:
    """What can be found inside the words of a text: the parts of names like `customerName`, and
    each two characters that follow each other where nothing separates words.
    """
    if text.isascii() and (text.islower() or not _HUMP.search(text)):
        return ""  # most are, and it costs next to nothing to see
    found: list[str] = []
    for word in _TERM.findall(text):
        if _RUN.search(word):
            for run in _RUN.split(word):
                pairs = (run[start : start + 2] for start in range(len(run)))
                found += pairs if _RUN.match(run) else _HUMP.split(run)
        elif len(humps := _HUMP.split(word)) > 1:
            found += humps
    return " ".join(found)


def terms(query: str) -> list[str]:
    """The words of a query, each once, and their parts."""
    found: list[str] = []
    for word in _TERM.findall(query):
        runs = _RUN.split(word)
        if len(runs) == 1:
            found += dict.fromkeys([word, *_HUMP.split(word)])
            continue
        for run in filter(None, runs):
            if _RUN.match(run):
                found += [run[at : at + 2] for at in range(max(len(run) - 1, 1))]
            else:
                found += _HUMP.split(run)
    # Not casefold(): FTS5 folds letter by letter, and would not find "strasse" for "Straße".
    return list(dict.fromkeys(term.lower() for term in found))[:_MAX_TERMS]


def expression(words: list[str]) -> str:
    """The words as an expression of FTS5: whatever has at least one of them matches."""
    # Of a single character that stands inside a word the pairs are known that begin with it.
    return " OR ".join(f'"{word}"*' if _is_single(word) else f'"{word}"' for word in words)


def around(words: list[str], snippet: str | None, body: str) -> str:
    """What of a text is worth showing: FTS5's snippet, unless that does not show a word which is
    inside another one.
    """
    inside = [word for word in words if _RUN.match(word)]
    if snippet is not None and not inside and any(word in snippet.lower() for word in words):
        return snippet
    lowered = body.lower()
    at = min((at for word in words if (at := lowered.find(word)) >= 0), default=-1)
    if at < 0:
        return body[:_OPENING] if snippet is None else snippet
    start = max(at - _BEFORE, 0) if at >= _OPENING - _BEFORE else 0
    end = start + _OPENING
    return ("…" if start else "") + body[start:end] + ("…" if end < len(body) else "")


def _is_single(word: str) -> bool:
    return len(word) == 1 and _RUN.match(word) is not None


def _parts(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, str):
        yield f"{name}: {value}" if name else value
    elif isinstance(value, Mapping):
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
