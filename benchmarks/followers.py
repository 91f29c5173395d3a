"""Follow a session on the page, as many browsers would. Started by the page scenario.

python -m benchmarks.followers URL SESSION COUNT

Prints a line once each of them has what there is, and goes on until its standard input ends; then
prints how many bytes they were sent.
"""

from __future__ import annotations

import asyncio
import sys
from urllib.parse import parse_qs, urlsplit


async def main(url: str, session: str, count: int) -> None:
    """Follow, and print."""
    address = urlsplit(url)
    request = (
        f"GET /api/events?session={session} HTTP/1.1\r\nhost: {address.netloc}\r\n"
        f"authorization: Bearer {parse_qs(address.query)['token'][0]}\r\n\r\n"
    )
    sent = 0

    async def follow(is_live: asyncio.Event) -> None:
        nonlocal sent
        reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=2**28)
        writer.write(request.encode())
        await reader.readuntil(b"event: live")
        is_live.set()
        while data := await reader.read(2**16):
            sent += len(data)

    async with asyncio.TaskGroup() as group:
        followers = []
        for _ in range(count):  # one after another, as people do
            is_live = asyncio.Event()
            followers.append(group.create_task(follow(is_live)))
            await is_live.wait()
        print("live", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for each in followers:
            each.cancel()
    print(sent, flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
