"""Queue the conversations of a file: `python submit.py FILE [PATH]`.

FILE is JSON or JSONL as `foldlog import` takes it, PATH the data directory (default: ./.foldlog).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from job_queue import JobQueue

import foldlog
from foldlog.importer import Conversation, read_conversations

QUEUE = "conversations"


def jobs(file: Path) -> Iterator[dict[str, Any]]:
    """A job for each conversation of a file."""
    for item in read_conversations(file):
        if isinstance(item, Conversation):
            yield {
                "session_id": f"conversation-{item.name}",
                "description": f"{file.name}:{item.number}",
                "messages": [dict(message) for message in item.messages],
                "turns": len(item.messages),
            }


async def main(file: str, path: str | None = None) -> None:
    """Queue them all."""
    async with foldlog.connect(path=path) as store, JobQueue.open(store, QUEUE) as queue:
        for job in jobs(Path(file)):
            await queue.put(job["session_id"], job)
        print(await queue.size(), "conversations wait")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
