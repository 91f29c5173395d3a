"""From files to conversations. A broken item is named and the rest goes on."""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from foldlog.errors import ImportFailed
from foldlog.importer.conversation import BrokenLine, Conversation, ShapeError, parse_item

Item = Conversation | BrokenLine

_LINE_SUFFIXES = {".jsonl", ".ndjson"}


def read_conversations(path: str | Path, *, first_index: int = 0) -> Iterator[Item]:
    """Yield the items of one file, in order.

    The file is JSON (an array of items, one item, or one conversation as a list of messages) or
    JSONL (an item a line; blank lines do not count). JSONL is read line by line; a file is JSONL by
    its suffix, `.jsonl` or `.ndjson`, and otherwise by its content. A pipe, such as `/dev/stdin`,
    is read to its end first, into a temporary file.

    Args:
        path: the file.
        first_index: the index of the first item.

    Raises:
        ImportFailed: the file cannot be read, is empty, or is no JSON.
    """
    path = Path(path)
    try:
        empty = True
        with path.open("rb") as opened, _rewindable(opened) as file:
            for item in _items(file, path, first_index):
                empty = False
                yield item
    except OSError as error:
        raise ImportFailed(f"{path}: {error.strerror or error}") from error
    if empty:
        raise ImportFailed(f"{path}: holds no conversation")


@contextmanager
def _rewindable(file: BinaryIO) -> Iterator[BinaryIO]:
    if file.seekable():
        yield file
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(file, copy)
        yield copy


def _items(file: BinaryIO, path: Path, index: int) -> Iterator[Item]:
    source = str(path)
    if path.suffix.lower() in _LINE_SUFFIXES or _begins_with_a_whole_line(file):
        return _lines(file, source, index)
    file.seek(0)
    content = file.read()
    try:
        document = _decode(content)
    except ValueError as error:
        return _lines_after_all(file, source, index, error)
    return _document(document, source, index, len(content))


def _begins_with_a_whole_line(file: BinaryIO) -> bool:
    """Whether the first line is JSON by itself and another one follows."""
    file.seek(0)
    filled = (line for line in file if line.strip())
    first = next(filled, b"")
    if next(filled, None) is None:
        return False
    try:
        _decode(first)
    except ValueError:
        return False
    return True


def _lines(file: BinaryIO, source: str, index: int) -> Iterator[Item]:
    file.seek(0)
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


def _lines_after_all(file: BinaryIO, source: str, index: int, error: ValueError) -> Iterator[Item]:
    """JSONL whose first line is broken. Without one whole conversation it is a broken JSON file."""
    items = _lines(file, source, index)
    broken: list[Item] = []
    for item in items:
        if isinstance(item, Conversation):
            return chain(broken, [item], items)
        broken.append(item)
    if not broken:
        return iter(())
    raise ImportFailed(f"{source}: {error}") from error


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
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1}") from error
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at {_place(text, error.pos)}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError as error:
        # Python reads integers up to a number of digits only: longer ones take quadratic time.
        longest = sys.get_int_max_str_digits()
        found = re.search(rf"\d{{{longest + 1},}}", text)
        if found is None:
            raise
        digits = f"an integer of {len(found[0]):,} digits at {_place(text, found.start())}"
        raise ValueError(f"{digits}: the limit is {longest:,}") from error


def _place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return f"line {line} column {column}" if line > 1 else f"column {column}"
