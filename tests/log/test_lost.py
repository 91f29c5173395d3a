"""Losses on a real server: found when a log opens, and again after its connection was lost."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from foldlog.envelope import draft
from foldlog.errors import FoldlogError, LogCorrupt, LogRewound
from foldlog.log.embedded import EmbeddedServer
from foldlog.log.jetstream import JetStreamLog, wire
from foldlog.log.jetstream.asking import ask
from foldlog.log.jetstream.stream import StreamClient
from foldlog.log.port import Append
from tests.support.stores import fresh_namespace

OpenLog = Callable[[], Awaitable[JetStreamLog]]


@pytest.fixture
async def open_log(embedded_path: Path) -> AsyncIterator[OpenLog]:
    """Opens a namespace of four shards, which lasts as long as the test."""
    server, name = await EmbeddedServer.join(embedded_path), fresh_namespace()
    opened: list[JetStreamLog] = []

    async def open_it() -> JetStreamLog:
        options = {"user": server.user, "password": server.password}
        opened.append(await JetStreamLog.open(server.url, name, shards=4, options=options))
        return opened[-1]

    yield open_it
    for log in opened:
        await log.close()
    await server.leave()


async def filled(log: JetStreamLog, count: int = 12) -> None:
    for n in range(count):
        where = log.namespace.subject("updates", f"s{n}")
        await log.append([Append(where, (draft("x", b"\xc0", id="1"),))])


async def read(log: JetStreamLog) -> list[int | FoldlogError]:
    """What each of the sessions reads as: how many records, or what is raised."""
    found: list[int | FoldlogError] = []
    for n in range(12):
        try:
            found.append(
                sum([len(p) async for p in log.read(log.namespace.subject("updates", f"s{n}"))])
            )
        except FoldlogError as error:
            found.append(error)
    return found


async def purge_in_secret(log: JetStreamLog, session: str) -> int:
    """Remove records as nobody may who does not announce it; return the shard."""
    where = log.namespace.subject("updates", session)
    answer = await ask(
        log.connection,
        f"STREAM.PURGE.{log.namespace.stream(where.shard)}",
        dict[str, Any],
        {"filter": where.name},
        timeout=5,
    )
    assert answer["purged"] == 1
    return where.shard


async def recreate(log: JetStreamLog, shard: int) -> None:
    """Replace a shard's stream by an empty one."""
    name = log.namespace.stream(shard)
    found = await StreamClient(log.connection, name, timeout=5).describe()
    await log.connection.request(f"$JS.API.STREAM.DELETE.{name}", timeout=5)
    config = msgspec.to_builtins(found.config)
    await ask(log.connection, f"STREAM.CREATE.{name}", wire.StreamDescription, config, timeout=5)


async def test_only_the_shard_that_lost_records_raises_and_only_until_it_is_accepted(
    open_log: OpenLog,
) -> None:
    log = await open_log()
    await filled(log)
    assert await read(log) == [1] * 12
    await log.close()
    log = await open_log()
    shard = await purge_in_secret(log, "s3")
    for each in (await open_log(), await open_log()):
        (loss,) = await each.check()
        assert (type(loss), loss.stream) == (LogCorrupt, log.namespace.stream(shard))
        for n, found in enumerate(await read(each)):
            is_lost = log.namespace.subject("updates", f"s{n}").shard == shard
            assert isinstance(found, LogCorrupt) == is_lost
    await each.accept()
    assert sum(found == 1 for found in await read(each)) == 11
    assert await (await open_log()).check() == []


async def test_a_stream_that_is_created_anew_is_another_incarnation(open_log: OpenLog) -> None:
    log = await open_log()
    await filled(log)
    await log.close()
    log = await open_log()
    where = log.namespace.subject("updates", "s3")
    before = await log.snapshots.identity(where)
    await recreate(log, where.shard)
    await filled(log, 40)
    other = await open_log()
    assert {type(found) for found in await read(other)} == {int, LogRewound}
    (loss,) = await log.check()
    assert isinstance(loss, LogRewound)
    await log.accept()
    assert await log.snapshots.identity(where) != before
    assert await (await open_log()).check() == []


async def test_marks_cost_one_question_a_shard_that_was_written_to(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await open_log()
    await filled(log, 1)
    asked: list[str] = []
    request = log.connection.request

    async def counting(subject: str, *args: object, **options: object) -> object:
        asked.append(subject)
        return await request(subject, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(log.connection, "request", counting)
    await log.close()
    assert len([each for each in asked if "STREAM.INFO.FOLDLOG" in each]) == 1


async def test_clearing_all_snapshots_leaves_the_marks(open_log: OpenLog) -> None:
    log = await open_log()
    await filled(log)
    await log.close()
    log = await open_log()
    snapshots = log.snapshots
    where = log.namespace.subject("updates", "s3")
    await snapshots.put(where, "updates", b"x")
    assert await snapshots.get(where, "updates") == b"x"
    await snapshots.purge_all()
    assert await snapshots.get(where, "updates") is None
    await purge_in_secret(log, "s3")
    assert len(await (await open_log()).check()) == 1


async def test_what_is_purged_properly_is_no_loss(
    open_log: OpenLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await open_log()
    await filled(log)
    for n in range(0, 12, 2):
        await log.purge(log.namespace.subject("updates", f"s{n}"), before=10**6)
    assert await log.check() == []
    await log.close()
    log = await open_log()
    assert await read(log) == [0, 1] * 6
