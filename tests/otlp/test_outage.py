"""The log goes away under the receiver, and comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest

import foldlog
from tests.otlp.conftest import Serving
from tests.otlp.support import Recorder, body, export
from tests.support.server import LocalServer


@pytest.mark.long  # exporters wait before they try again
async def test_an_exporter_gets_through_once_the_server_is_back(
    tmp_path: Path, serving: Serving
) -> None:
    recorder = Recorder()
    recorder.agent_run("s")
    async with LocalServer(tmp_path) as server, foldlog.connect(server.url) as store:
        async with serving(store) as url:
            await server.kill()
            async with httpx.AsyncClient(timeout=60) as client:
                refused = await client.post(
                    f"{url}/v1/traces",
                    content=body(recorder.spans),
                    headers={"content-type": "application/x-protobuf"},
                )
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            sent = asyncio.create_task(export(url, recorder.spans))
            await server.start()
            assert await sent
        [trace_id] = await store.list_traces("s")
        assert len(await store.load_history(trace_id)) == 4
