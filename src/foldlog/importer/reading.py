"""From files to conversations. A broken item is named and the rest goes on."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from foldlog.errors import ImportFailed
from foldlog.importer.conversation import BrokenLine, Conversation, parse_item

Item = Conversation | BrokenLine

_LINE_SUFFIXES = {".jsonl", ".ndjson"}


def read_conversations(path: str | Path, *, first_index: int = 0) -> Iterator[Item]:
    """Yield the items of one file, in order.

    The file is JSON (an array of items, one item, or one conversation as a list of messages) or
    JSONL (an item a line; blank lines do not count). JSONL is read line by line; a file is JSONL by
    its suffix, `.jsonl` or `.ndjson`, and otherwise by its content. A pipe, such as `/dev/stdin`,
    is read to its end first.

    Args:
        path: the file.
        first_index: the index of the first item.

    Raises:
        ImportFailed: the file cannot be read, is empty, or is no JSON.
    """
    path = Path(path)
    try:
        empty = True
        with path.open("rb") as opened:
            file = opened if opened.seekable() else io.BytesIO(opened.read())
            for item in _items(file, path, first_index):
                empty = False
                yield item
    except OSError as error:
        raise ImportFailed(f"{path}: {error.strerror or error}") from error
    if empty:
        raise ImportFailed(f"{path}: holds no conversation")


def _items(file: BinaryIO, path: Path, index: int) -> Iterator[Item]:
    if path.suffix.lower() in _LINE_SUFFIXES or _begins_with_a_whole_line(file):
        return _lines(file, str(path), index)
    file.seek(0)
    content = file.read()
    try:
        document = _decode(content) if content.strip() else []
        return _document(document, str(path), index, len(content))
    except ValueError as error:
        raise ImportFailed(f"{path}: {error}") from error


def _begins_with_a_whole_line(file: BinaryIO) -> bool:
    """Whether the first line is JSON by itself and another one follows."""
    filled = (line for line in file if line.strip())
    first = next(filled, b"")
    with suppress(ValueError):
        _decode(first)
        return next(filled, None) is not None
    return False


def _lines(file: BinaryIO, source: str, index: int) -> Iterator[Item]:
    file.seek(0)
    for number, line in enumerate(file, start=1):
        if line.strip():
            yield _item(line.rstrip(b"\r\n"), source, number, index, len(line))
            index += 1


def _document(document: object, source: str, index: int, size: int) -> Iterator[Item]:
    if not isinstance(document, list) or _is_conversation(document):
        document = [document]
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
        if isinstance(decoded, bytes):
            decoded = _decode(decoded)
        return parse_item(decoded, source=source, number=number, index=index, size=size)
    except ValueError as error:
        return BrokenLine(source, number, size, str(error))


def _decode(content: bytes) -> object:
    """Decoded JSON. Raises `ValueError`, whose text says what is wrong."""
    try:
        # "-sig": some editors begin a file with a byte order mark.
        text = content.decode("utf-8-sig")
        return json.loads(text)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        line = f"line {error.lineno} " if error.lineno > 1 else ""
        raise ValueError(f"not JSON: {error.msg} at {line}column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
