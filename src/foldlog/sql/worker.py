"""The process in which DuckDB answers queries: `python worker.py`, fed by its standard input.

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
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any, BinaryIO, Final

import msgspec

from foldlog.sql.messages import HEADER, Answer, Ask, Done, Failed, Look, Question, Start, framed

OVERHEAD_BYTES: Final = 256 * 1024 * 1024
"""What Python and DuckDB take beside what DuckDB counts."""

_NO_TABLE: Final = re.compile(r"Table with name (.+?) does not exist")


def answers(receive: Callable[[], Any]) -> Iterator[Answer]:
    """What is answered to what is received: first a Start, and then questions without end."""
    start = receive()
    assert isinstance(start, Start), "it begins with what there is"
    _limit(start.max_bytes)
    from foldlog.sql.database import Database

    database = Database(start)
    while True:
        ask = receive()
        assert isinstance(ask, Ask), "a question begins with what is asked"
        for message in _answered(database, ask, receive):
            if isinstance(message, Done | Failed):
                database.end()  # before anybody asks again
            yield message


def _answered(database: Any, ask: Ask, receive: Callable[[], Any]) -> Iterator[Answer]:
    import duckdb

    from foldlog.sql.database import Refused

    try:
        names, until = database.wanted(ask), ask.until
        while names and (wanted := database.show(names, until)) is not None:
            yield wanted
            look = receive()
            assert isinstance(look, Look), "it looks again when the tables have been filled"
            until = look.until
        yield from database.answer(ask)
    except Refused as refused:
        yield refused.failed
    except (MemoryError, duckdb.Error) as error:
        yield _failed(error)


def _failed(error: Exception) -> Failed:
    text = str(error)
    if isinstance(error, MemoryError) or "Out of Memory" in text or "bad_alloc" in text:
        return Failed("memory", text)
    if type(error).__name__ in _BROKEN:
        return Failed("file", text)
    missing = _NO_TABLE.search(text)
    return Failed("sql", text, missing[1] if missing else "")


_BROKEN: Final = ("IOException", "FatalException", "InternalException", "SerializationException")
"""What DuckDB raises where a file is damaged."""


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
    """Answer until the caller is gone."""
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # others reserve more than the limit allows
    arrived: Queue[Question] = Queue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, arrived), daemon=True).start()
    for message in answers(arrived.get):
        sys.stdout.buffer.write(framed(message))
        sys.stdout.buffer.flush()
    os._exit(0)  # the thread reads on


if __name__ == "__main__":
    main()
