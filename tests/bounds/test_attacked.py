"""Servers under a limit of 1 GiB, attacked: they live, and others are served meanwhile.

Run by `make test-long`; `-s` prints what each attack took.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

import foldlog
from tests.bounds.attacks import attributes, field, request_of, spans
from tests.support.build import update

pytestmark = pytest.mark.long

GIB = 1 << 30
PROTOBUF = {"content-type": "application/x-protobuf"}
GZIP = PROTOBUF | {"content-encoding": "gzip"}
JSON = {"content-type": "application/json"}
LARGE = 15_000_000


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[foldlog.Store]:
    async with foldlog.connect(path=tmp_path / "data") as opened:
        yield opened


@asynccontextmanager
async def limited(tmp_path: Path, *command: str) -> AsyncIterator[tuple[Any, int]]:
    """A command of foldlog's under the limit: what it says of itself, and its process id."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bounds.limited", str(GIB), *command),
        *("--json", "--path", str(tmp_path / "data")),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        yield json.loads(await process.stdout.readline()), process.pid
        assert process.returncode is None, "it was ended"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def megabytes(pid: int) -> int:
    """What the process has held in memory at most."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1000


async def while_others_send(
    url: str, attack: Callable[[], Awaitable[list[int]]]
) -> tuple[list[int], list[int], float]:
    """Attack; return the answers to it and to a small sender, and its slowest answer.

    The sender has a process of its own: how busy the attacker is, is not the receiver's doing.
    """
    sender = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bounds.sender", f"{url}/v1/traces"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert sender.stdin is not None
    assert sender.stdout is not None
    assert await sender.stdout.readline() == b"ready\n"
    given = await attack()
    sender.stdin.close()
    answers, slowest = json.loads(await sender.stdout.read())
    await sender.wait()
    return given, answers, slowest


async def at_once(count: int, send: Callable[[], Awaitable[int]]) -> list[int]:
    return await asyncio.gather(*(send() for _ in range(count)))


async def slowly(client: httpx.AsyncClient) -> int:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(LARGE // 65_536):
            yield b"x" * 65_536
        await asyncio.sleep(3)
        yield b"x"

    try:
        return (await client.post("/v1/traces", content=parts(), headers=PROTOBUF)).status_code
    except httpx.TransportError:  # it was answered before it had sent all
        return 429


async def test_no_sender_ends_the_receiver_or_keeps_others_out(
    tmp_path: Path, store: foldlog.Store
) -> None:
    del store  # it keeps the server, which has memory of its own
    named = request_of(
        b"".join(field(2, field(1, os.urandom(16)) + field(2, b"12345678")) for _ in range(1900))
    )
    long = b"x" * 30_000
    texts = request_of(b"".join(field(2, field(5, long)) for _ in range(500)))
    attacks: dict[str, tuple[bytes, dict[str, str], int, set[int]]] = {
        "bombs": (gzip.compress(request_of(spans(7_000_000))), GZIP, 30, {413, 429}),
        "spans": (request_of(spans(240_000)), PROTOBUF, 10, {413, 429}),
        "events": (request_of(field(2, field(11, b"") * 240_000)), PROTOBUF, 10, {413, 429}),
        "nulls": (request_of(field(2, attributes(240_000))), PROTOBUF, 10, {413, 429}),
        "json": (b'{"resourceSpans":[' + b"{}," * 2_000_000 + b"{}]}", JSON, 10, {413, 429}),
        "traces": (named, PROTOBUF, 5, {200, 429}),
        "texts": (texts, PROTOBUF, 10, {200, 429}),
    }
    command = ("serve", "--otlp", "--otlp-port", "0", "--otlp-all")
    async with (
        limited(tmp_path, *command) as (facts, pid),
        httpx.AsyncClient(
            base_url=facts["otlp"], timeout=60, limits=httpx.Limits(max_connections=200)
        ) as client,
    ):

        async def send(content: bytes, headers: dict[str, str]) -> int:
            return (await client.post("/v1/traces", content=content, headers=headers)).status_code

        for name, (content, headers, count, wanted) in attacks.items():
            given, taken, slowest = await while_others_send(
                facts["otlp"], partial(at_once, count, partial(send, content, headers))
            )
            print(f"{name}: {slowest * 1000:.0f} ms, {megabytes(pid)} MB")  # noqa: T201 - see above
            assert set(given) <= wanted, (name, given)
            assert taken == [200], (name, taken)
        given, taken, slowest = await while_others_send(
            facts["otlp"], partial(at_once, 150, partial(slowly, client))
        )
        print(f"150 slow senders: {slowest * 1000:.0f} ms, {megabytes(pid)} MB")  # noqa: T201
        assert set(given) <= {400, 413, 429}
        assert taken == [200]


async def test_a_session_of_large_records_is_listed_shown_and_shared(
    tmp_path: Path, store: foldlog.Store
) -> None:
    words = [f"word {n}" for n in range(500_000)]  # 7 MB
    for n in range(60):
        await store.save_update(update(f"u{n}", content=words))
    async with limited(tmp_path, "ui", "--no-browser") as (facts, pid):
        url = urlsplit(facts["url"])
        headers = {"authorization": f"Bearer {parse_qs(url.query)['token'][0]}"}
        base = f"http://{url.netloc}"
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=60) as client:
            began = time.monotonic()
            async with client.stream("GET", "/api/events", params={"session": "session"}) as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("data: [{"):
                        break
            print(f"its first screen: {time.monotonic() - began:.2f} s")  # noqa: T201
            for name in ("sessions", "session", "records", "share"):
                began = time.monotonic()
                answer = await client.get(f"/api/{name}", params={"session": "session"})
                took = time.monotonic() - began
                print(f"{name}: {took:.2f} s, {len(answer.content):,} B, {megabytes(pid)} MB")  # noqa: T201
                assert answer.status_code == (413 if name == "share" else 200)
                assert len(answer.content) < 6_000_000


async def test_followers_that_never_read_hold_nobody_up(
    tmp_path: Path, store: foldlog.Store
) -> None:
    for start in range(0, 30_000, 1000):
        await asyncio.gather(
            *(store.save_update(update(f"u{start + n}", text="working")) for n in range(1000))
        )
    await store.save_update(update("first", session_id="live"))
    async with limited(tmp_path, "ui", "--no-browser") as (facts, pid):
        url = urlsplit(facts["url"])
        token = parse_qs(url.query)["token"][0]
        sockets = list[socket.socket]()
        before = megabytes(pid)
        for n in range(50):
            one = socket.create_connection((url.hostname or "", url.port or 0))
            session = ("session", "live")[n % 2]
            one.sendall(
                f"GET /api/events?session={session} HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {token}\r\n\r\n".encode()
            )
            sockets.append(one)
        headers = {"authorization": f"Bearer {token}"}
        base, lags = f"http://{url.netloc}", list[float]()
        async with (
            httpx.AsyncClient(base_url=base, headers=headers, timeout=60) as client,
            client.stream("GET", "/api/events", params={"session": "live"}) as stream,
        ):
            lines = stream.aiter_lines()
            while "live" not in await anext(lines):
                pass
            for n in range(300):
                at = time.time()
                await store.save_update(
                    update(f"live-{n}", session_id="live", content={"pad": "y" * 20_000})
                )
                while f'"live-{n}"' not in await anext(lines):
                    pass
                lags.append(time.time() - at)
            assert (await client.get("/api/about")).status_code == 200
        lags.sort()
        print(f"lag {lags[150]:.3f} s, at most {lags[-1]:.3f} s; {megabytes(pid) - before} MB more")  # noqa: T201
        assert megabytes(pid) - before < 300
        for one in sockets:
            one.close()
