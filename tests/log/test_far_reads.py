"""Reads of subjects whose records lie far from the end of a long stream, on a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from foldlog.envelope import draft
from foldlog.errors import LogCorrupt
from foldlog.log.embedded import EmbeddedServer
from foldlog.log.jetstream import JetStreamLog, reader
from foldlog.log.port import Append
from foldlog.subjects import Subject
from tests.support.stores import fresh_namespace


@pytest.fixture
async def log(embedded_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[JetStreamLog]:
    """A log in which ten sequences are far."""
    monkeypatch.setattr(reader, "LONG_TAIL", 10)
    server = await EmbeddedServer.join(embedded_path)
    options = {"user": server.user, "password": server.password}
    log = await JetStreamLog.open(server.url, fresh_namespace(), options=options)
    yield log
    await log.close()
    await server.leave()


async def fill(log: JetStreamLog, *keys: str) -> list[int]:
    """Append a record for each key; return their sequences."""
    return [
        (await log.append([Append(where(log, key), (draft("x", b"\xc0", id=f"{n}"),))]))[0]
        for n, key in enumerate(keys)
    ]


def where(log: JetStreamLog, key: str) -> Subject:
    return log.namespace.subject("x", key)


async def read(log: JetStreamLog, key: str, **options: Any) -> list[int]:
    return [r.seq async for page in log.read(where(log, key), **options) for r in page]


SPREAD = (["s"] + ["o"] * 30) * 4 + ["o"] * 30
DENSE = ["s"] * 60 + ["o"] * 100


@pytest.mark.parametrize("keys", [SPREAD, DENSE], ids=["spread", "dense"])
@pytest.mark.parametrize("strong", [True, False])
async def test_a_far_subject_is_read_whole(
    log: JetStreamLog, keys: list[str], strong: bool
) -> None:
    seqs = [seq for seq, key in zip(await fill(log, *keys), keys, strict=True) if key == "s"]
    assert await read(log, "s", strong=strong) == seqs
    for after in (1, seqs[1], seqs[-1], seqs[-1] + 1):
        assert await read(log, "s", after=after, strong=strong) == [s for s in seqs if s > after]
    assert await read(log, "none", strong=strong) == []


async def test_a_page_is_not_asked_for_where_nothing_follows(
    log: JetStreamLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(log, *SPREAD)

    async def never(*args: object, **options: object) -> None:
        raise AssertionError("the server would count what is pending")

    monkeypatch.setattr(log.connection, "collect", never)
    assert await read(log, "s", after=100) == []


async def test_a_spread_subject_comes_in_one_page(
    log: JetStreamLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(log, *SPREAD)
    asked = 0
    collect = log.connection.collect

    async def counting(*args: Any, **options: Any) -> Any:
        nonlocal asked
        asked += 1
        return await collect(*args, **options)

    async def never(*args: object, **options: object) -> None:
        raise AssertionError("each record would cost a request")

    with monkeypatch.context() as patched:
        patched.setattr(log.connection, "collect", counting)
        patched.setattr(log.connection, "request", never)
        assert len(await read(log, "s")) == 4
    assert asked == 1


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """One record a page."""
    monkeypatch.setattr(reader, "_FIRST_MESSAGES", 1)
    monkeypatch.setattr(reader, "_PAGE_MESSAGES", 1)


@pytest.mark.usefixtures("small_pages")
async def test_what_is_appended_meanwhile_is_read_too(log: JetStreamLog) -> None:
    await fill(log, *SPREAD)
    found = 0
    async for page in log.read(where(log, "s")):
        found += len(page)
        if found == 3:
            await fill(log, "s", "s")
    assert found == 6


@pytest.mark.usefixtures("small_pages")
async def test_a_purge_meanwhile_is_no_corruption(log: JetStreamLog) -> None:
    await fill(log, *SPREAD)
    found = 0
    async for page in log.read(where(log, "s")):
        found += len(page)
        if found == 1:
            await log.purge(where(log, "s"), before=100)
    assert found == 1


async def test_an_empty_subject_is_not_counted(
    log: JetStreamLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(log, "o")

    async def never(*args: object, **options: object) -> dict[str, int]:
        raise AssertionError("a direct get says it at a third of the cost")

    monkeypatch.setattr(reader.StreamClient, "subjects", never)
    assert await read(log, "none") == []
    assert await log.last(where(log, "none")) is None


async def test_a_record_that_is_counted_and_not_found_is_told(
    log: JetStreamLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(log, *SPREAD)

    async def one_more(self: Any, subject: str, deadline: float) -> dict[str, int]:
        return {subject: 1}

    monkeypatch.setattr(reader.StreamClient, "subjects", one_more)
    monkeypatch.setattr(reader, "NO_RESULTS", "as a newer server may say it")
    with pytest.raises(LogCorrupt, match="cannot be read"):
        await read(log, "none")
