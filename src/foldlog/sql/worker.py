"""The process in which DuckDB answers one query: `python worker.py`, fed by its standard input.

DuckDB's own limits do not hold for what a function builds (`repeat('x', 3000000000)`), and a
function that takes long cannot be interrupted. A process can: the system bounds its memory, lets it
write no file, and the caller ends it when the time is over. It ends itself when the caller is gone.

It imports little, and nothing that a query could reach.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator
from queue import Queue
from typing import Any, BinaryIO, Final

import msgspec

from foldlog.sql.database import Database, Refused
from foldlog.sql.frames import HEADER, Answer, Ask, Failed, Forget, Question, Rows, framed

OVERHEAD_BYTES: Final = 256 * 1024 * 1024
"""What Python and DuckDB take beside what DuckDB counts."""

_WAITING: Final = 8
"""Messages that wait to be loaded."""

_NO_TABLE: Final = re.compile(r"Table with name (.+?) does not exist")


def answers(messages: Iterator[Any]) -> Iterator[Answer]:
    """What is answered to an Ask, and to what follows it."""
    ask = next(messages)
    assert isinstance(ask, Ask), "a question begins with what is asked"
    _limit(ask.max_bytes)
    try:
        database = Database(ask)
    except ModuleNotFoundError as error:
        yield Failed("missing", str(error))
        return
    try:
        yield database.wanted()
        for message in messages:
            if isinstance(message, Rows):
                database.load(message)
            elif isinstance(message, Forget):
                database.forget(message)
            else:
                yield from database.answer()
                return
    except Refused as refused:
        yield refused.failed
    except (MemoryError, database.errors) as error:
        yield _failed(error)


def _failed(error: Exception) -> Failed:
    text = str(error)
    if isinstance(error, MemoryError) or "Out of Memory" in text or "bad_alloc" in text:
        return Failed("memory", text)
    if "pytz" in text:
        return Failed("missing", "pytz")
    missing = _NO_TABLE.search(text)
    return Failed("sql", text, missing[1] if missing else "")


def _limit(max_bytes: int) -> None:
    """Have the system hold this process to its memory, and to writing no file."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows: DuckDB's own limits have to do
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    memory = OVERHEAD_BYTES + max_bytes
    if hard != resource.RLIM_INFINITY:
        memory = min(memory, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    for nothing in (resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(nothing, (0, 0))


# --- the process ---------------------------------------------------------------------------------


def _read(stream: BinaryIO, into: Queue[Question]) -> None:
    """Take what arrives. The pipe ends when the caller is gone: then nobody waits any more."""
    decode = msgspec.msgpack.Decoder(Question).decode
    while len(header := stream.read(HEADER.size)) == HEADER.size:
        into.put(decode(stream.read(*HEADER.unpack(header))))
    os._exit(1)  # whatever DuckDB does


def main() -> None:
    """Answer one question."""
    arrived: Queue[Question] = Queue(_WAITING)
    threading.Thread(target=_read, args=(sys.stdin.buffer, arrived), daemon=True).start()
    for message in answers(iter(arrived.get, None)):
        sys.stdout.buffer.write(framed(message))
        sys.stdout.buffer.flush()
    os._exit(0)  # the thread reads on


if __name__ == "__main__":
    main()
