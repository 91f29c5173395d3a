"""From files to conversations. A broken item is named and the rest goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from foldlog.errors import ImportFailed
from foldlog.importer.conversation import BrokenLine, Conversation, ShapeError, parse_item

Item = Conversation | BrokenLine

_LINE_SUFFIXES = {".jsonl", ".ndjson"}


def read_conversations(path: str | Path, *, first_index: int = 0) -> Iterator[Item]:
    """The items of one file, in order, counted from `first_index`.

    The file is JSON (an array of items, one item, or one conversation as a list of messages) or
    JSONL (an item a line; blank lines do not count). JSONL is read line by line, never as a whole;
    a file is taken for it by its suffix, `.jsonl` or `.ndjson`, and otherwise by its content.

    Raises `ImportFailed` where the file cannot be read, is empty, or is not JSON at all.
    """
    path = Path(path)
    try:
        empty = True
        for item in _items(path, first_index):
            empty = False
            yield item
    except OSError as error:
        raise ImportFailed(f"{path}: {error.strerror or error}") from error
    if empty:
        raise ImportFailed(f"{path}: holds no conversation")


def _items(path: Path, index: int) -> Iterator[Item]:
    if path.suffix.lower() in _LINE_SUFFIXES or _begins_with_a_whole_line(path):
        return _lines(path, index)
    content = path.read_bytes()
    try:
        document = _decode(content)
    except ValueError as error:
        return _lines_after_all(path, index, error)
    return _document(document, str(path), index, len(content))


def _begins_with_a_whole_line(path: Path) -> bool:
    """Whether the first line is JSON by itself and another one follows."""
    with path.open("rb") as file:
        filled = (line for line in file if line.strip())
        first = next(filled, b"")
        if next(filled, None) is None:
            return False
    try:
        _decode(first)
    except ValueError:
        return False
    return True


def _lines(path: Path, index: int) -> Iterator[Item]:
    source = str(path)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            yield _line(line, source, number, index)
            index += 1


def _line(line: bytes, source: str, number: int, index: int) -> Item:
    try:
        decoded = _decode(line.rstrip(b"\r\n"))
    except ValueError as error:
        return BrokenLine(source, number, len(line), str(error))
    return _item(decoded, source, number, index, len(line))


def _lines_after_all(path: Path, index: int, error: ValueError) -> Iterator[Item]:
    """JSONL whose first line is broken. Without one whole conversation it is a broken JSON file."""
    items = _lines(path, index)
    broken: list[Item] = []
    for item in items:
        if isinstance(item, Conversation):
            return chain(broken, [item], items)
        broken.append(item)
    if not broken:
        return iter(())
    raise ImportFailed(f"{path}: {error}") from error


def _document(document: object, source: str, index: int, size: int) -> Iterator[Item]:
    if not isinstance(document, list) or _is_conversation(document):
        yield _item(document, source, 1, index, size)
        return
    for place, item in enumerate(document):
        yield _item(item, source, place + 1, index + place, size // len(document))


def _is_conversation(items: list[object]) -> bool:
    """Whether an array holds messages rather than conversations."""
    return any(
        isinstance(item, dict) and "role" in item and not {"traj", "messages"} & item.keys()
        for item in items
    )


def _item(decoded: object, source: str, number: int, index: int, size: int) -> Item:
    try:
        return parse_item(decoded, source=source, number=number, index=index, size=size)
    except ShapeError as error:
        return BrokenLine(source, number, size, str(error))


def _decode(content: bytes) -> object:
    """Decoded JSON. Raises `ValueError`, whose text says what is wrong."""
    try:
        # "-sig": some editors begin a file with a byte order mark.
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} " if error.lineno > 1 else ""
        raise ValueError(f"not JSON: {error.msg} at {where}column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
