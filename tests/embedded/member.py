"""A process that is a member of a data directory; run as a script by the tests.

    member.py DIRECTORY

Says one JSON value per line, the first once it has joined: what it knows of the server. Then obeys
lines on standard input: ``leave`` leaves and ends, ``fork`` forks a child that lives until standard
input ends and then leaves.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
from pathlib import Path
from typing import Any

from foldlog.log.embedded import EmbeddedServer


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


async def main(directory: Path) -> None:
    server = await EmbeddedServer.join(directory, timeout=30)
    say({name: getattr(server, name) for name in ("pid", "port", "user", "password")})
    if sys.stdin.readline() == "fork\n":
        if os.fork() == 0:
            # Not by reading, which could take the line that is meant for the parent.
            end = select.poll()
            end.register(sys.stdin, 0)
            end.poll()
            os._exit(0)
        sys.stdin.readline()
    await server.leave()
    say("left")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
