"""An export brought into an empty namespace is the same log, to the byte."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import ImportFailed, LogRecord, PayloadError, codec
from foldlog.errors import ConfigurationError, Misuse
from foldlog.exporting import check, export, export_lines, restore
from foldlog.scoped import Scope
from foldlog.store import copying
from foldlog.store.blobs import BlobRef
from tests.exporting.history import LARGE, LONG, write
from tests.support.build import update
from tests.support.stores import fresh_namespace

Open = Callable[..., Awaitable[foldlog.Store]]
SHARDS = pytest.mark.parametrize("shards", [1, 2])


@pytest.fixture
async def fresh(embedded_path: Path) -> AsyncIterator[Open]:
    """Opens stores, each over a namespace of its own unless one is named."""
    opened: list[foldlog.Store] = []

    async def open_store(namespace: str = "", **options: Any) -> foldlog.Store:
        name = namespace or fresh_namespace()
        opened.append(await foldlog.connect(path=embedded_path, namespace=name, **options))
        return opened[-1]

    yield open_store
    for store in opened:
        await store.close()


async def read(store: foldlog.Store) -> list[LogRecord]:
    return [each async for each in store.records()]


async def blobs(store: foldlog.Store) -> dict[BlobRef, bytes | None]:
    return {ref: await copying.blob(store, ref) for ref in await copying.blob_refs(store)}


def without_names(path: Path) -> list[str]:
    """The lines but for what the namespace's name makes of them."""
    with gzip.open(path, "rt") as file:
        lines = [re.sub(r'"namespace":"[^"]*"|"before":"[^"]*"', "", line) for line in file]
    return lines[:-1]


@SHARDS
async def test_a_copy_is_the_same_log(fresh: Open, tmp_path: Path, shards: int) -> None:
    store, copy = await fresh(shards=shards), await fresh(shards=shards)
    fork = await write(store)
    then = await store.position()
    for n in range(10):
        await store.save_update(update(f"after{n}", "a"))
    await store.clear_session("b")
    file, again = tmp_path / "all.jsonl.gz", tmp_path / "copy.jsonl.gz"
    made = await export(store, file)
    assert made[:2] == check(file)[1:3]
    assert made.until == await store.position()
    brought = await restore(copy, file)
    assert brought == (made.records, 0, made.blobs)

    assert await read(copy) == await read(store)
    assert await copy.position() == await store.position()
    assert await blobs(copy) == await blobs(store)
    await export(copy, again)
    assert without_names(again) == without_names(file)
    report = await copy.verify()
    assert report.is_good, report
    assert await copy.sessions() == await store.sessions() == sorted(["a", LONG, fork])
    for session in ("a", LONG, fork):
        for reader in (lambda one: one, lambda one: one.at(then)):
            one, other = reader(store), reader(copy)
            assert await one.list_updates(session) == await other.list_updates(session)
            since = await one.list_updates(session, since_id="u2")
            assert since == await other.list_updates(session, since_id="u2")
            assert await one.list_tasks(session) == await other.list_tasks(session)
            assert len(await other.list_updates(session)) > 3
    assert await copy.scoped.read(Scope.session("a"), "k/2") == "large" * 60_000
    run = foldlog.kinds.runs("a", "run")
    step = (await copy.view(run)).steps["large"]
    assert codec.decode(await copy.blobs.read(run, step.blob)) == LARGE
    # It goes on as the original does: what it has is a repeat, and what was erased comes anew.
    for each in (store, copy):
        await each.save_update(update("u0", "gone"))
        await each.save_update(update("u0", "a", content={"n": 0, "é": 1.5}))
        assert await each.list_updates("gone") == [update("u0", "gone")]
    assert len(await copy.list_updates("a")) == len(await store.list_updates("a"))
    await copy.fork("a", at=then)
    erased = await copy.erase_session(LONG)
    assert not erased.readable
    assert erased.blobs == 2


async def test_the_file_can_be_read_and_says_it_all(fresh: Open, tmp_path: Path) -> None:
    store = await fresh()
    await write(store)
    file = tmp_path / "all.jsonl"
    made = await export(store, file)
    header, *lines, end = map(json.loads, file.read_text().splitlines())
    assert header == {
        "foldlog_export": 3,
        "namespace": store._core.log.namespace.name,
        "shards": 1,
        "session_id": None,
        "after": None,
        "until": str(made.until),
    }
    assert (end["records"], end["blobs"], end["sha256"]) == (made.records, made.blobs, made.sha256)
    records = [each for each in lines if "seq" in each]
    assert len(records) == made.records
    first = next(e for e in records if (e["kind"], e["keys"]) == ("updates", ["a"]))
    assert first["envelopes"][0]["payload"]["content"] == {"n": 0, "é": 1.5}
    [binary] = [e for e in records if e["kind"] == "events" and e["keys"] == ["trace a"]]
    assert binary["envelopes"][0]["payload"]["payload"] == {"bytes": {"$bytes": "AP8="}}
    saved = next(each for each in records if each["kind"] == "tasks")["envelopes"][0]["payload"]
    when = saved["context_snapshot"]["spawned_at"]
    assert when == {"$ext": 2, "text": "2024-05-15T15:00:00.123456+00:00"}
    assert not any("raw" in each for each in records)
    assert sum("blob" in each for each in lines) == made.blobs > 3
    assert [each["line"] for each in lines] == list(range(2, len(lines) + 2))
    text = file.read_bytes().splitlines(keepends=True)
    for number in (1, 2, 30, len(text) - 2):
        digest = hashlib.sha256(b"".join(text[:number])).hexdigest()
        assert lines[number - 1]["before"] == digest[:16]
    assert end["sha256"] == hashlib.sha256(b"".join(text[:-1])).hexdigest()
    assert file.stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["all.jsonl"]
    assert b"".join([each async for each in export_lines(store)]) == file.read_bytes()


async def test_a_session_and_a_range_come_alone_and_can_be_brought_back(
    fresh: Open, tmp_path: Path
) -> None:
    store, of_session, of_range = (
        await fresh(shards=2),
        await fresh(shards=2),
        await fresh(shards=2),
    )
    await write(store)
    since = await store.position()
    await store.save_update(update("last", "a"))
    until = await store.position()
    await store.save_update(update("too late", "a"))
    file = tmp_path / "part.jsonl"

    await export(store, file, session_id="a", until=until)
    await restore(of_session, file)
    assert await of_session.list_updates("a") == await store.at(until).list_updates("a")
    assert await of_session.sessions() == ["a"]
    assert (await of_session.verify()).is_good
    refs = await of_session.artifact_store.list(scope=foldlog.ArtifactScope(session_id="a"))
    assert len(refs) == 2
    for each in refs:
        assert await of_session.artifact_store.get(each.id) is not None
    # Nothing is said of who has the same artifact.
    names = {key for each in await read(of_session) for key in each.keys}
    assert not {"b", LONG} & names
    assert f'"{LONG}"' not in file.read_text()
    assert len(await blobs(of_session)) == 4
    assert None not in (await blobs(of_session)).values()

    of_time = tmp_path / "time.jsonl"
    await export(store, of_time, since=since, until=until)
    assert (await restore(of_range, of_time)).records == 1
    assert [each.update_id for each in await of_range.list_updates("a")] == ["last"]


async def test_a_session_that_was_brought_back_alone_can_be_erased(
    fresh: Open, tmp_path: Path
) -> None:
    store, copy = await fresh(), await fresh()
    await write(store)
    await export(store, tmp_path / "b.jsonl", session_id="b")
    await restore(copy, tmp_path / "b.jsonl")
    assert len(await copy._core.backend.blobs.names()) == 2
    erased = await copy.erase_session("b")
    assert (erased.blobs, erased.readable) == (2, ())
    assert await copy._core.backend.blobs.names() == []


@pytest.mark.usefixtures("purging_at_once")
async def test_a_log_in_an_archive_is_exported_whole(
    fresh: Open, embedded_path: Path, tmp_path: Path
) -> None:
    store, copy = await fresh(archive=tmp_path / "archive"), await fresh()
    await write(store)
    await store.archive(everything=True)
    await store.save_update(update("hot", "a"))
    await export(store, tmp_path / "all.jsonl")
    await restore(copy, tmp_path / "all.jsonl")
    assert await read(copy) == await read(store)
    assert (await copy.verify()).is_good
    with pytest.raises(Misuse, match="without archive="):
        await restore(await fresh(archive=tmp_path / "other"), tmp_path / "all.jsonl")


async def test_what_cannot_be_brought_is_refused_before_anything_is_written(
    fresh: Open, tmp_path: Path
) -> None:
    store, file = await fresh(shards=2), tmp_path / "all.jsonl"
    for n in range(8):
        await store.save_update(update("u", f"s{n}"))
    await export(store, file)
    used = await fresh(shards=2)
    subject = used._core.log.namespace.subject
    other = next(f"{n}" for n in range(99) if subject("updates", f"{n}").shard == 1)
    await used.save_update(update("u", other))
    with pytest.raises(Misuse, match="is not empty"):
        await restore(used, file)
    assert await used.sessions() == [other]
    with pytest.raises(ConfigurationError, match="connect with shards=2"):
        await restore(await fresh(), file)
    with pytest.raises(ImportFailed, match="No such file"):
        await restore(used, tmp_path / "nothing")
    # The same again brings nothing, and what was used since is not empty.
    copy = await fresh(shards=2)
    await restore(copy, file)
    assert await restore(copy, file) == (0, 8, 0)
    await copy.save_update(update("more", "s1"))
    with pytest.raises(Misuse, match="is not empty"):
        await restore(copy, file)


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz"])
async def test_a_file_that_was_cut_or_altered_is_refused(
    fresh: Open, tmp_path: Path, suffix: str
) -> None:
    store, copy = await fresh(), await fresh()
    await write(store)
    good, bad = tmp_path / f"good.{suffix}", tmp_path / f"bad.{suffix}"
    await export(store, good)
    data = good.read_bytes()
    for size in (0, 1, 40, len(data) // 2, len(data) - 9, len(data) - 1):
        bad.write_bytes(data[:size])
        if size < len(data) - 1 or suffix == "jsonl.gz":
            with pytest.raises(ImportFailed):
                await restore(copy, bad)
    opened = gzip.open if suffix == "jsonl.gz" else open
    with opened(good, "rb") as file:
        lines: list[bytes] = list(file)
    altered = [
        [*lines[:5], *lines[6:]],
        [*lines[:5], lines[5], *lines[5:]],
        [*lines[:5], lines[6], lines[5], *lines[7:]],
        [lines[0].replace(b"@", b"@1"), *lines[1:]],
        [*lines[:5], lines[5].replace(b"a", b"b"), *lines[6:]],
        [*lines[:-2], lines[-2].replace(b'"data":"', b'"data":"AAAA'), lines[-1]],
        [*lines, b"more\n"],
        [lines[0].replace(b'"foldlog_export":3', b'"foldlog_export":4'), *lines[1:]],
        lines[1:],
    ]
    for each in altered:
        with opened(bad, "wb") as file:
            file.writelines(each)
        with pytest.raises(ImportFailed):
            await restore(copy, bad)
    assert await read(copy) == []
    shutil.copy(good, bad)
    await restore(copy, bad)


async def test_places_that_a_log_cannot_have_are_refused(fresh: Open) -> None:
    store = await fresh(shards=2)
    shard = store._core.log.namespace.subject("updates", "s").shard
    good = LogRecord(shard, 2, "2026-01-01T00:00:00Z", "updates", ("s",), b"x")

    def but(**fields: Any) -> LogRecord:
        values = {name: getattr(good, name) for name in LogRecord.__struct_fields__}
        return LogRecord(**(values | fields))

    wrong = [but(kind="up.>"), but(kind="archive"), but(keys=()), but(seq=0), but(shard=1 - shard)]
    wrong += [
        but(time=each) for each in ("", "2026-99-01T00:00:00Z", "2026-01-01T00:00:00Z\r\nA: b")
    ]
    for each in wrong:
        with pytest.raises(PayloadError):
            await copying.restore_records(store, shard, [each])
    with pytest.raises(PayloadError):
        await copying.restore_records(store, shard, [good, good])
    digest = hashlib.sha256(b"x").hexdigest()
    for ref in (
        *(BlobRef("scoped", ("s", "k"), name) for name in ("x", "*", f"{'0' * 64}-1", digest)),
        BlobRef("up.>", ("s",), f"{digest}-1"),
        BlobRef("scoped", (), f"{digest}-1"),
    ):
        with pytest.raises(PayloadError):
            await copying.restore_blob(store, ref, b"x")
    assert await store._core.log.heads() == [0, 0]
    assert await copying.restore_records(store, shard, [good], until=5) == 5
    await copying.end_restore(store)
    assert [each.seq for each in await read(store)] == [2]
