"""Redis streams behind FastAPI, as it is usually done: run by `python -m`, with a URL and a port.

A reader of events waits by a blocking XREAD of its own. A page has 1,000 entries, as foldlog's has.
"""

# No `from __future__ import annotations`: FastAPI reads them.
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any, Final

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

PAGE: Final = 1_000


def application(redis: Any) -> FastAPI:
    """Serve the streams of a Redis client."""
    app = FastAPI()

    @app.put("/{path:path}")
    async def create(path: str) -> Response:
        return Response(status_code=201)

    @app.post("/{path:path}")
    async def append(path: str, request: Request) -> Response:
        id = await redis.xadd(path, {"data": await request.body()})
        return Response(status_code=204, headers={"stream-next-offset": id.decode()})

    @app.get("/{path:path}")
    async def read(path: str, offset: str = "-1", live: str = "") -> Response:
        if live:
            return StreamingResponse(events(path), media_type="text/event-stream")
        begin = "-" if offset == "-1" else f"({offset}"
        found = await redis.xrange(path, begin, "+", count=PAGE)
        headers = {"stream-next-offset": found[-1][0].decode() if found else offset}
        if len(found) < PAGE:
            headers["stream-up-to-date"] = "true"
        body = b"[%s]" % b",".join(entry[b"data"] for _, entry in found)
        return Response(body, media_type="application/json", headers=headers)

    async def events(path: str) -> AsyncIterator[bytes]:
        # "$" would pass over what comes before the first XREAD.
        [(last, _)] = await redis.xrevrange(path, count=1) or [(b"0-0", {})]
        yield b": here\n\n"
        while True:
            for _, entries in await redis.xread({path: last}, block=10_000) or []:
                for id, entry in entries:
                    last = id
                    yield b"id: %s\ndata: %s\n\n" % (id, entry[b"data"])

    return app


if __name__ == "__main__":
    client = import_module("redis.asyncio").from_url(sys.argv[1], max_connections=10_000)
    uvicorn.run(application(client), port=int(sys.argv[2]), access_log=False)
