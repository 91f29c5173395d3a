"""Start the conversations of a file: `python submit.py FILE [PATH]`, as often as you like.

FILE is JSON or JSONL as `foldlog import` takes it, PATH the data directory (default: ./.foldlog).
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from conversations import converse

import foldlog
from foldlog.importer import Conversation, read_conversations


async def main(file: str, path: str | None = None) -> None:
    """Start them all, each once."""
    async with foldlog.connect(path=path) as store:
        for item in read_conversations(Path(file)):
            if isinstance(item, Conversation):
                messages = [dict(message) for message in item.messages]
                run = await store.start(converse, messages, id=f"conversation-{item.name}")
                print(run.id)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
