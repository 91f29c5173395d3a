"""`penguiflow-admin` on the factory, as an operator calls it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

from penguiflow.state import StoredEvent

from foldlog.integrations.penguiflow import PenguiFlowStateStore

FACTORY = "foldlog.integrations.penguiflow:create_store"
ADMIN = str(Path(sys.executable).with_name("penguiflow-admin"))


async def admin(command: str, trace_id: str, **variables: str) -> tuple[int | None, str, str]:
    environment = {name: value for name, value in os.environ.items() if name != "FOLDLOG_URL"}
    process = await asyncio.create_subprocess_exec(
        *(ADMIN, command, "--state-store", FACTORY, trace_id),
        stdout=PIPE,
        stderr=PIPE,
        env=environment | variables,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_history_and_replay(tmp_path: Path) -> None:
    path = tmp_path / "data"
    async with PenguiFlowStateStore(path=path, on_error="raise") as store:
        for ts, kind in enumerate(["node_start", "node_success"]):
            await store.save_event(StoredEvent("t1", ts, kind, "n", "id", {"latency_ms": 3.5}))

    code, out, err = await admin("history", "t1", FOLDLOG_PATH=str(path))
    assert (code, err) == (0, "")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(line["event"], line["latency_ms"]) for line in lines] == [
        ("node_start", 3.5),
        ("node_success", 3.5),
    ]
    code, out, err = await admin("replay", "t1", FOLDLOG_PATH=str(path))
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "# replay trace=t1 events=2"
    assert len(out.splitlines()) == 3
    code, out, err = await admin("replay", "t2", FOLDLOG_PATH=str(path))
    assert (code, out, err) == (0, "# trace t2 has no stored events\n", "")


async def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    code, out, err = await admin("history", "t1", FOLDLOG_URL="nats://127.0.0.1:9")
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith("error: no connection")
