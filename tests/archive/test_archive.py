"""A store whose old records stand in an archive, on a real server."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pytest
from obstore.store import LocalStore, from_url

import foldlog
from foldlog import kinds
from foldlog.log.archive import Archiver, parquet, segments as segments_module
from foldlog.log.archive.archiver import FAN
from foldlog.log.archive.manifest import Manifest
from foldlog.log.archive.places import Directory
from foldlog.log.archive.segments import list_name
from foldlog.log.archive.selection import Selection
from foldlog.subjects import Subject
from foldlog.views.snapshots import Snapshots
from tests.archive.support import ALL, LIMITS, Place, copies_of, fill, ids, log_of
from tests.support.buckets import S3Server, s3_options, s3_server
from tests.support.build import task, update
from tests.threads.support import FORMS, ROOT, step, threads


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["directory", pytest.param("bucket", marks=pytest.mark.long)])
async def place(
    embedded_path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Place]:
    if request.param == "directory":
        local = LocalStore(tmp_path / "archive", mkdir=True)
        place = Place(embedded_path, tmp_path / "archive", local, {})
    else:
        server = request.getfixturevalue("s3")
        url, options = server.bucket(), s3_options(server.url)
        place = Place(embedded_path, url, from_url(url, **options), options)
    yield place
    await place.close()


async def test_what_is_over_the_limits_goes_and_is_read_as_before(place: Place) -> None:
    store = await place.open()
    await fill(store)
    moved = await store.archive()
    assert moved.records > 0
    [info] = (await store.health()).streams
    assert info.bytes <= LIMITS.hot_bytes
    assert info.first_seq > moved.records
    [archived] = (await store.health()).archive
    assert (archived.records, archived.until) == (moved.records, info.first_seq - 1)
    assert (archived.behind, archived.holder) == (info.last_seq - archived.until, "")
    for reader in (store, await place.open()):
        assert await reader.sessions() == [f"s{s}" for s in range(10)]
        for s in range(10):
            assert await ids(reader, f"s{s}") == ALL
            assert await ids(reader, f"s{s}", since_id="u17") == ["u18", "u19"]
    assert (await store.verify()).is_good
    assert (await store.archive()).records == 0


async def test_moments_forks_and_watchers_reach_back_into_the_archive(place: Place) -> None:
    store = await place.open()
    await fill(store, each=10)
    then = await store.position()
    await fill(store)
    await store.archive(everything=True)
    reader = await place.open()
    assert await ids(reader.at(then), "s3") == ALL[:10]
    assert await ids(reader.at(update("u4", "s3")), "s3") == ALL[:5]
    await reader.fork("s3", at=then, to="fork")
    await reader.save_update(update("new", "fork"))
    await store.archive(everything=True)
    assert await ids(await place.open(), "fork") == [*ALL[:10], "new"]
    seen = []
    async for each in reader.watch_updates("s3", after="u17"):
        seen.append(each.update_id)
        if len(seen) == 2:
            await reader.save_update(update("live", "s3"))
        if each.update_id == "live":
            break
    assert seen == ["u18", "u19", "live"]


async def test_decisions_compare_with_what_was_archived(place: Place) -> None:
    store, other = await place.open(), await place.open()
    await store.append_messages("s", [foldlog.Message("a", "plain", 1)], expected=0)
    await store.archive(everything=True)
    await other.append_messages("s", [foldlog.Message("b", "plain", 2)], expected=1)
    await store.archive(everything=True)
    with pytest.raises(foldlog.AppendConflict):
        await store.append_messages("s", [foldlog.Message("c", "plain", 3)], expected=1)
    popped = await asyncio.gather(store.pop_message("s"), other.pop_message("s"))
    assert sorted(each.id for each in popped if each is not None) == ["a", "b"]
    await store.save_task(task("t", "s"))
    await store.archive(everything=True)
    with pytest.raises(foldlog.FoldlogError, match="session"):
        await store.fork("s", to="s")


async def test_what_is_erased_is_in_no_segment(place: Place) -> None:
    store = await place.open()
    await fill(store)
    await store.archive(everything=True)
    before = place.files()
    erased = await store.erase_session("s3")
    assert (erased.removed["updates"], erased.readable) == (20, ())
    name = store._core.subject("updates", "s3").name
    log = log_of(store)
    manifest = await log.manifests.current(0, fresh=True)
    assert await log.segments.counts(manifest, Selection(name)) == {}
    assert not set(before) & set(place.files())
    assert place.files() == sorted(each.name for each in manifest.segments)
    assert place.files(".subjects") == [list_name(each) for each in place.files()]
    for reader in (store, await place.open()):
        assert await ids(reader, "s3") == []
        assert await ids(reader, "s4") == ALL
        assert await reader.sessions() == [f"s{s}" for s in range(10) if s != 3]


async def test_an_erasure_while_an_archiver_works_wins(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the archiver had read before comes into no segment."""
    store, other = await place.open(), await place.open()
    await fill(store)
    log = log_of(other)
    keep = log.segments.keep

    async def erased_meanwhile(*args: Any) -> Any:
        monkeypatch.setattr(log.segments, "keep", keep)
        await store.erase_session("s3")
        return await keep(*args)

    monkeypatch.setattr(log.segments, "keep", erased_meanwhile)
    assert (await other.archive(everything=True)).records == 0
    assert (await other.archive(everything=True)).records > 0
    manifest = await log.manifests.current(0, fresh=True)
    assert place.files() == sorted(each.name for each in manifest.segments)
    reader = await place.open()
    assert await ids(reader, "s3") == []
    assert await ids(reader, "s4") == ALL


async def test_what_a_killed_archiver_left_goes_with_the_next_pass(place: Place) -> None:
    """It may hold what was erased since."""
    store = await place.open()
    await fill(store, each=2)
    await store.archive(everything=True)
    [segment] = place.files()
    left = f"{segment.partition('/')[0]}/{0:016d}-left.parquet"
    obstore.put(place.objects, left, obstore.get(place.objects, segment).bytes())
    await store.archive()
    assert place.files() == [segment]


async def test_of_two_archivers_one_works(place: Place) -> None:
    store, other = await place.open(), await place.open()
    await fill(store)
    await asyncio.gather(*(each.archive(everything=True) for each in [store, other] * 3))
    await store.archive(everything=True)
    manifest = await log_of(store).manifests.current(0, fresh=True)
    counts = await log_of(store).segments.counts(manifest, Selection())
    assert sum(counts.values()) == 200
    assert await ids(await place.open(), "s7") == ALL


@pytest.mark.parametrize("step", ["keep", "change", "purge"])
async def test_an_archiver_that_dies_at_any_step_loses_and_doubles_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    store = await place.open()
    await fill(store)
    log = log_of(store)
    monkeypatch.setattr("foldlog.log.archive.archiver.LEASE", 0.0)
    owner: Any = {"keep": log.segments, "purge": log.below, "change": log.manifests}[step]
    for before in (True, False):
        original = getattr(owner, step)

        async def die(*args: Any, _do: Any = original, _before: bool = before, **kw: Any) -> Any:
            if not _before:
                await _do(*args, **kw)
            raise foldlog.LogUnavailable("killed here")

        monkeypatch.setattr(owner, step, die)
        with pytest.raises(foldlog.LogUnavailable, match="killed here"):
            await Archiver(log, LIMITS).run(everything=True)
        monkeypatch.setattr(owner, step, original)
        reader = await place.open()
        assert await ids(reader, "s3") == ALL
        await fill(store)
    await (await place.open()).archive(everything=True)
    reader = await place.open()
    assert await ids(reader, "s3") == ALL
    manifest = await log_of(reader).manifests.current(0, fresh=True)
    assert sum((await log_of(reader).segments.counts(manifest, Selection())).values()) == 600


async def test_a_store_without_the_archive_is_refused(place: Place) -> None:
    store = await place.open()
    await fill(store, each=2)
    await store.archive(everything=True)
    with pytest.raises(foldlog.ConfigurationError, match="archive="):
        await place.open(archive=None)


async def test_a_store_that_was_open_before_decides_on_nothing_that_was_archived(
    place: Place,
) -> None:
    early, store = await place.open(archive=None), await place.open()
    await store.append_messages("s", [foldlog.Message("a", "plain", 1)], expected=0)
    await store.archive(everything=True)
    with pytest.raises(foldlog.ConfigurationError, match="archive="):
        await early.append_messages("s", [foldlog.Message("b", "plain", 2)], expected=0)
    assert [each.id for each in await store.list_messages("s", consistency="strong")] == ["a"]


async def test_without_an_archive_there_is_nothing_to_archive() -> None:
    async with foldlog.memory_store() as store:
        with pytest.raises(foldlog.ConfigurationError, match="archive="):
            await store.archive()


async def test_a_segment_that_is_missing_is_an_error_and_not_an_empty_answer(
    place: Place,
) -> None:
    store = await place.open()
    await fill(store, each=5)
    await store.archive(everything=True)
    obstore.delete(place.objects, place.files())
    for cached in copies_of(store).rglob("*.parquet"):
        cached.unlink()
    reader = await place.open()
    with pytest.raises(foldlog.LogCorrupt, match="missing"):
        await ids(reader, "s3")


async def test_neighbours_are_merged_and_hold_the_same(place: Place) -> None:
    limits = LIMITS._replace(segment_bytes=1)
    store = await place.open(archive_limits=limits)
    for n in range(FAN + 2):
        await store.save_update(update(f"u{n}", "s"))
        await store.archive(everything=True)
    assert len(place.files()) < FAN
    assert await ids(await place.open(), "s") == [f"u{n}" for n in range(FAN + 2)]
    assert await store.view(kinds.updates("s"), len) == FAN + 2


async def test_a_run_is_cut_by_subject_and_read_as_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "CUT", 1)  # a file ends where its first group does
    monkeypatch.setattr(parquet, "GROUP", 500_000)
    store = await place.open(archive_limits=LIMITS._replace(segment_bytes=2**30, hot_bytes=2**30))
    await fill(store, sessions=3, each=1_500)
    await store.archive(everything=True)
    low, middle, high = (await log_of(store).manifests.current(0, fresh=True)).segments
    assert (low.first, low.last, low.latest) == (high.first, high.last, high.latest)
    assert low.high == middle.low < middle.high == high.low
    names = {f"s{s}": store._core.subject("updates", f"s{s}").name for s in range(3)}
    first, second, third = sorted(names, key=names.__getitem__)
    everything = [f"u{n}" for n in range(1_500)]
    for session in names:
        assert await ids(await place.open(), session) == everything
    reader = await place.open()
    assert sum([len(page) async for page in reader._core.log.scan(0)]) == 4_500
    found = [each async for page in reader._core.log.scan(0, only=[names[second]]) for each in page]
    assert [each.subject for each in found] == [names[second]] * 1_500
    await reader.erase_session(second)
    manifest = await log_of(store).manifests.current(0, fresh=True)
    kept = [each.records for each in manifest.segments]
    assert (kept[0], sum(kept)) == (1_500, 3_000)
    obstore.delete(place.objects, manifest.segments[0].name)
    (copies_of(store) / manifest.segments[0].name).unlink(missing_ok=True)
    reader = await place.open()
    assert await ids(reader, third) == everything  # without opening what cannot have it
    with pytest.raises(foldlog.LogCorrupt, match="missing"):
        await ids(reader, first)


@pytest.mark.parametrize("limit", ["_PAGE_BYTES", "_WINDOW_BYTES"])
async def test_what_does_not_fit_in_memory_is_read_in_parts(
    place: Place, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(segments_module, limit, 1_000)
    monkeypatch.setattr(parquet, "GROUP", 1_000)
    store = await place.open()
    await fill(store, sessions=3)
    await store.archive(everything=True)
    reader = await place.open()
    assert await ids(reader, "s1") == ALL
    found = [each.seq async for page in reader.log.scan(0) for each in page]
    assert sorted(set(found)) == found
    assert len(found) == 3 * 20


async def test_what_cannot_be_merged_stays_and_the_log_is_purged(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await place.open(archive_limits=LIMITS._replace(segment_bytes=1))
    for n in range(FAN):
        await store.save_update(update(f"u{n}", "s"))
        if n == FAN - 1:
            monkeypatch.setattr(parquet, "merge", is_full)
            with pytest.raises(foldlog.LogUnavailable, match="no space left"):
                await store.archive(everything=True)
        else:
            await store.archive(everything=True)
    [info] = (await store.health()).streams
    [archived] = (await store.health()).archive
    assert archived.segments == FAN
    assert info.first_seq > archived.until
    assert await ids(await place.open(), "s") == [f"u{n}" for n in range(FAN)]
    monkeypatch.undo()
    assert (await store.archive()).merges == 1


async def test_a_segment_that_cannot_be_written_is_an_error_of_the_log(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archiver that runs by itself tries again after one, and ends after any other."""
    store = await place.open()
    await store.save_update(update("u", "s"))
    monkeypatch.setattr(parquet, "sort", is_full)
    with pytest.raises(foldlog.LogUnavailable, match="no space left"):
        await store.archive(everything=True)
    monkeypatch.undo()
    assert (await store.archive(everything=True)).records == 1


async def test_a_shard_that_cannot_be_archived_keeps_no_other_from_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await place.open(shards=2)
    await fill(store)
    keep, log = log_of(store).segments.keep, log_of(store)

    async def fails(manifest: Manifest, *args: Any) -> Any:
        if manifest.says.folder.startswith(log.namespace.stream(0)):
            raise foldlog.LogUnavailable("not now")
        return await keep(manifest, *args)

    monkeypatch.setattr(log.segments, "keep", fails)
    with pytest.raises(foldlog.LogUnavailable, match="not now"):
        await store.archive(everything=True)
    first, second = (await store.health()).archive
    assert first.records == 0 < second.records
    assert second.behind < second.records  # manifests


async def test_what_is_written_when_the_store_closes_ends_first(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await place.open()
    await fill(store)
    segments = log_of(store).segments
    started, goes_on, put = threading.Event(), threading.Event(), segments._place.put

    def slowly(*args: Any) -> None:
        started.set()
        goes_on.wait()
        put(*args)

    monkeypatch.setattr(parquet, "CUT", 1)
    monkeypatch.setattr(parquet, "GROUP", 10_000)
    monkeypatch.setattr(segments._place, "put", slowly)
    archiving = asyncio.create_task(store.archive(everything=True))
    await asyncio.to_thread(started.wait)
    for _ in range(3):
        archiving.cancel()
        await asyncio.sleep(0)
    was_done = archiving.done()
    goes_on.set()
    assert not was_done
    await asyncio.gather(archiving, return_exceptions=True)
    assert archiving.cancelled()
    assert [each.name for each in copies_of(store).rglob(".*")] == []
    assert len(place.files()) == 1  # of many


async def test_a_damaged_shard_keeps_no_other_from_its_erasure(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await place.open()
    await fill(store)
    erasing, done = log_of(store)._erasing, list[int]()

    async def erase(shard: int, _: Any) -> None:
        await asyncio.sleep(0)
        if shard == 0:
            raise foldlog.LogCorrupt("a segment", 1, "damaged")
        done.append(shard)

    monkeypatch.setattr(erasing, "_erase", erase)
    for _ in range(3):
        asked = (erasing.erase(shard, Selection("s")) for shard in (0, 1, 2))
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in found] == [foldlog.LogCorrupt, type(None), type(None)]
    assert set(done) == {1, 2}
    assert erasing._due == []


async def test_erasures_of_the_same_time_share_a_pass(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await place.open()
    await fill(store, each=2)
    await store.archive(everything=True)
    log, passes = log_of(store), list[int]()
    erasing, [head] = log._erasing, await log.heads()
    erase = erasing._erase

    async def counted(shard: int, requests: Any) -> None:
        passes.append(len(requests))
        await erase(shard, requests)

    monkeypatch.setattr(erasing, "_erase", counted)
    subjects = [log.namespace.subject("updates", f"s{n}") for n in range(5)]
    await asyncio.gather(*(log.purge(each, before=head + 1) for each in subjects))
    assert sum(passes) == 5 > len(passes)
    assert set(subjects).isdisjoint(await log.subjects("updates"))


async def test_what_is_purged_while_it_is_counted_counts_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await place.open()
    await fill(store, sessions=2)
    log, until = log_of(store), 0
    purge, subjects = log.below.purge, log.below.subjects

    async def no_purge(*_: Any, before: int, **__: Any) -> None:
        nonlocal until
        until = before

    async def purged_meanwhile(*args: Any) -> dict[Subject, int]:
        await purge(0, before=until)
        return await subjects(*args)

    monkeypatch.setattr(log.below, "purge", no_purge)
    await store.archive(everything=True)
    monkeypatch.setattr(log.below, "subjects", purged_meanwhile)
    assert set((await log.subjects("updates")).values()) == {20}


async def test_a_sweep_finds_what_became_a_file_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await place.open()
    await fill(store, each=2)
    await store.archive(everything=True)
    [named] = place.files()
    folder = named.partition("/")[0]
    here = Directory(copies_of(store))
    draft = here.draft(folder, f".{0:016d}-late") / "file"
    draft.write_bytes(b"x")
    other, late = f"{folder}/{0:016d}-other.parquet", f"{folder}/{0:016d}-late.parquet"
    (here.root / other).write_bytes(b"x")
    under_way = here.draft(folder, f".{named.partition('/')[2]}.0a1b")
    delete = Directory.delete

    def deleted(self: Directory, name: str) -> None:
        if draft.exists():
            draft.rename(here.root / late)
        delete(self, name)

    monkeypatch.setattr(Directory, "delete", deleted)
    manifest = await log_of(store).manifests.current(0, fresh=True)
    segments = log_of(store).segments
    segments._sweep(here, manifest)
    assert sorted(here.names(folder)) == sorted(
        [named, list_name(named), f"{folder}/{under_way.name}"]
    )


async def test_what_the_system_refuses_is_no_damage(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await place.open()
    await fill(store, each=2)
    await store.archive(everything=True)
    reader = await place.open()

    def refuses(*_: Any) -> Any:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(log_of(reader).segments._place, "open", refuses)
    with pytest.raises(foldlog.LogUnavailable, match="too many open files"):
        await ids(reader, "s1")


async def test_a_damaged_segment_is_an_error(place: Place) -> None:
    store = await place.open()
    await fill(store, each=2)
    await store.archive(everything=True)
    [name] = place.files()
    content = bytearray(obstore.get(place.objects, name).bytes().to_bytes())
    content[-20] ^= 1  # in the footer
    obstore.put(place.objects, name, bytes(content))
    (copies_of(store) / name).write_bytes(content)
    with pytest.raises(foldlog.LogCorrupt, match="footer"):
        await ids(await place.open(), "s1")


def is_full(*_: Any) -> Iterator[Any]:
    return map(no_space, "x")


def no_space(_: str) -> Any:
    raise pa.ArrowMemoryError("no space left")


async def test_logs_of_one_namespace_may_share_a_place(tmp_path: Path) -> None:
    def opened(data: str) -> Any:
        return foldlog.connect(path=tmp_path / data, archive=tmp_path / "archive")

    async def archive(store: foldlog.Store) -> None:
        log_of(store).manifests.believed = 0.0
        await store.archive(everything=True)

    async with opened("a") as store:
        await fill(store, sessions=1, each=5)
        await archive(store)
    async with opened("b") as store:
        await fill(store, sessions=2, each=20)
        await archive(store)
        await store.erase_session("s0")
    async with opened("a") as store:
        assert await ids(store, "s0") == ALL[:5]


async def test_a_read_is_whole_when_all_is_archived_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, reader = await place.open(), await place.open()
    await fill(store)
    await store.archive()
    below = log_of(reader).below
    read_hot = below.read

    async def slowly(*args: Any, **options: Any) -> AsyncIterator[Any]:
        monkeypatch.setattr(below, "read", read_hot)
        await store.archive(everything=True)  # the reader has read what was archived before
        async for page in read_hot(*args, **options):
            yield page

    monkeypatch.setattr(below, "read", slowly)
    subject = log_of(reader).namespace.subject("updates", "s1")
    seqs = [record.seq async for page in log_of(reader).read(subject) for record in page]
    assert len(seqs) == len(set(seqs)) == 20
    assert seqs == sorted(seqs)


async def test_what_waits_for_its_purge_counts_as_archived(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await place.open()
    await fill(store)

    async def nothing(*_: Any) -> None: ...

    monkeypatch.setattr(Archiver, "_purge", nothing)
    assert (await store.archive()).records > 0
    assert (await store.archive()).records == 0


def test_a_file_that_is_overwritten_is_gone_for_its_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, found = Directory(tmp_path / "archive"), list[str]()
    draft = directory.draft("folder", ".draft") / "file"
    draft.write_bytes(b"x")
    directory.put("folder/name", draft)
    draft.write_bytes(b"y")

    def overwrite(path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            directory.open("folder/name")
        assert path.read_text() == "x" or not draft.exists()
        found.append(path.read_text())

    monkeypatch.setattr("foldlog.log.archive.places._overwrite", overwrite)
    directory.delete("folder/name")
    directory.delete("folder/.draft")
    assert found == ["x", "y"]
    assert directory.names("folder") == []


async def test_a_new_process_goes_on_with_an_archived_thread(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await place.open()
    now = ROOT
    for number in range(140):
        saved, versions = step(number, [number])
        now = await threads(store).put(now, saved, {}, versions)
    await store.close()  # which writes the thread's snapshot
    store = await place.open()
    assert (await store.archive(everything=True)).records >= 140
    loads = list[int]()
    load = Snapshots.load

    async def counted(self: Snapshots, *about: Any) -> Any:
        restored = await load(self, *about)
        loads.append(0 if restored is None else len(restored.folded.seen))
        return restored

    monkeypatch.setattr(Snapshots, "load", counted)
    one = threads(await place.open())
    row = await one.get(ROOT)
    assert row is not None
    assert (row.checkpoint.id, FORMS.value(row.values["messages"])) == (now.id, [139])
    assert loads == [140]
    rows = await one.rows({"configurable": {"thread_id": "trip"}}, None, None, None)
    assert [FORMS.value(each.values["messages"]) for _, each in rows] == [
        [n] for n in reversed(range(140))
    ]


def test_who_gives_an_archive_its_id_removes_what_others_left_of_theirs(tmp_path: Path) -> None:
    left, own = tmp_path / f".{'0' * 32}", "1" * 32
    left.mkdir()
    (left / "id").write_text(left.name)
    assert Directory(tmp_path).identity(own) == own
    assert Directory(tmp_path).identity("2" * 32) == own
    assert [each.name for each in tmp_path.iterdir()] == ["foldlog-archive"]
