"""`foldlog serve --otlp` as its users start it, and kill it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import foldlog
from tests.cli.support import PATIENCE, run, start
from tests.otlp.support import Recorder, export

TOKEN = {"FOLDLOG_OTLP_TOKEN": "t0ken"}


@pytest.fixture
def started() -> Iterator[Any]:
    """Starts receivers; gives the process and what it said of itself."""
    processes: list[subprocess.Popen[str]] = []

    def begin(*args: str | Path, **environment: str) -> tuple[subprocess.Popen[str], Any]:
        process = start("serve", "--otlp", "--json", *args, **environment)
        processes.append(process)
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        return process, json.loads(line or process.stderr.read())

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.long  # exporters wait for a second and longer before they try again
async def test_what_a_killed_receiver_has_acknowledged_is_there(
    tmp_path: Path, started: Any
) -> None:
    """SIGKILL in the middle of everything, three times. Exporters retry; nothing is doubled."""
    path = tmp_path / "data"
    runs = [Recorder() for _ in range(12)]
    for number, recorder in enumerate(runs):
        recorder.agent_run(f"s{number % 4}")
    acknowledged: list[Recorder] = []

    async def send(url: str, recorder: Recorder) -> None:
        assert await export(url, recorder.spans)
        acknowledged.append(recorder)

    async with foldlog.connect(path=path) as store:
        process, facts = await asyncio.to_thread(started, "--path", path, "--otlp-port", "0")
        port = facts["otlp"].rpartition(":")[2]
        for batch in (runs[:4], runs[4:8], runs[8:]):
            sent = [asyncio.create_task(send(facts["otlp"], each)) for each in batch]
            await asyncio.wait(sent, return_when=asyncio.FIRST_COMPLETED)
            process.kill()
            process.wait()
            assert all([await _is_there(store, each) for each in acknowledged])
            process, _ = await asyncio.to_thread(started, "--path", path, "--otlp-port", port)
            await asyncio.gather(*sent)
        assert len(acknowledged) == len(runs)
        assert all([await _is_there(store, each) for each in runs])
        assert await store.sessions() == ["s0", "s1", "s2", "s3"]
        listed = [await store.list_traces(name) for name in ("s0", "s1", "s2", "s3")]
        assert [len(each) for each in listed] == [3, 3, 3, 3]


async def _is_there(store: foldlog.Store, recorder: Recorder) -> bool:
    trace_id = format(recorder.spans[0].context.trace_id, "032x")
    history = await store.load_history(trace_id, consistency="strong")
    ids = sorted(str(each.node_id) for each in history)
    wanted = [each for each in recorder.spans if not each.name.startswith("GET")]
    return ids == sorted(format(each.context.span_id, "016x") for each in wanted)


async def test_a_token_and_a_log_elsewhere(
    tmp_path: Path, embedded_path: Path, started: Any
) -> None:
    """With a URL it only receives. The token comes by the environment."""
    credentials = json.loads((embedded_path / "server.json").read_text("utf-8"))
    async with foldlog.connect(path=embedded_path, namespace="otlp-elsewhere") as store:
        sign_in = {"FOLDLOG_USER": credentials["user"], "FOLDLOG_PASSWORD": credentials["password"]}
        url = (await store.health()).url
        process, facts = await asyncio.to_thread(
            started,
            *("--url", url, "--namespace", "otlp-elsewhere", "--otlp-port", "0"),
            **sign_in,
            **TOKEN,
        )
        assert facts.keys() == {"url", "namespace", "durability", "server_version", "otlp"}
        recorder = Recorder()
        recorder.agent_run("s")
        assert not await export(facts["otlp"], recorder.spans)
        assert await store.sessions() == []
        headers = {"authorization": "Bearer t0ken"}
        assert await export(facts["otlp"], recorder.spans, headers=headers)
        assert await store.sessions() == ["s"]
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, PATIENCE) == 0


def test_a_port_that_is_taken(tmp_path: Path, started: Any) -> None:
    _, facts = started("--path", tmp_path / "data", "--otlp-port", "0")
    port = facts["otlp"].rpartition(":")[2]
    second = run("serve", "--otlp", "--otlp-port", port, "--path", tmp_path / "data")
    assert second.code == 1
    assert (
        second.stderr
        == f"foldlog: port {port} cannot be used: Address already in use; 0 takes a free one\n"
    )


def test_others_need_a_token(tmp_path: Path) -> None:
    refused = run("serve", "--otlp", "--otlp-host", "0.0.0.0", "--path", tmp_path / "data")
    assert refused.code == 2
    assert "--otlp-token" in refused.stderr
    assert not (tmp_path / "data").exists()
