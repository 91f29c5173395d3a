"""What a damaged archive costs: what is in the damaged file, and nothing else."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import random
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import msgpack
from msgspec.structs import replace
from obstore.store import LocalStore

import foldlog
from foldlog import kinds
from foldlog.envelope import draft
from foldlog.log.archive import parquet, segments
from foldlog.log.archive.manifests import manifest_subject
from foldlog.log.archive.segments import list_name
from foldlog.log.port import Append
from foldlog_projections.archive import CHANGED, Segment
from tests.archive.support import ALL, LIMITS, Place, fill, ids, log_of
from tests.support.build import task, update

TEXT = {"text": "x" * 200}

DEADLINE = 60.0
"""Seconds in which a test has to end."""


@pytest.fixture
async def place(embedded_path: Path, tmp_path: Path) -> AsyncIterator[Place]:
    local = LocalStore(tmp_path / "archive", mkdir=True)
    place = Place(embedded_path, tmp_path / "archive", local, {})
    yield place
    await place.close()


def ends(test: Callable[..., Any]) -> Callable[..., Any]:
    """Have a test fail that does not end."""

    @functools.wraps(test)
    async def ended(*args: Any, **options: Any) -> None:
        async with asyncio.timeout(DEADLINE):
            await test(*args, **options)

    return ended


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "archive"


async def two_files(place: Place) -> tuple[Segment, Segment]:
    """Archive `old` and `both` in one file, `new` and `both` in another; `hot` is in the log."""
    store = await place.open()
    await store.save_task(task("t", "old", status=foldlog.TaskStatus.PAUSED))  # it is on a list
    for sessions in (("old", "both"), ("new", "both")):
        for session in sessions:
            updates = [update(f"{sessions[0]}-{n}", session, content=TEXT) for n in range(20)]
            await asyncio.gather(*map(store.save_update, updates))
        await store.archive(everything=True)
    await store.save_update(update("u", "hot"))
    first, second = (await log_of(store).manifests.current(0, fresh=True)).segments
    await store.close()
    return first, second


def flip(path: Path, seed: int) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(20):
        content[random.Random(seed).randrange(len(content))] ^= 0xFF
        seed += 1000
    path.write_bytes(content)


def flip_footer(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], None]] = {
    "footer": flip_footer,
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b"") and None,
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)) and None,
    **{f"flipped {seed}": lambda path, seed=seed: flip(path, seed) for seed in range(3)},
}


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(name, marks=pytest.mark.long) if name in ("flipped 1", "flipped 2") else name
        for name in DAMAGES
    ],
)
@ends
async def test_a_damaged_file_costs_its_sessions_and_nothing_else(
    place: Place, root: Path, damage: str
) -> None:
    first, second = await two_files(place)
    whole = (root / first.name).read_bytes()
    DAMAGES[damage](root / first.name)
    store = await place.open()
    for session in ("old", "both"):
        with pytest.raises(foldlog.LogCorrupt, match=first.name):
            await ids(store, session)
    assert len(await ids(store, "new")) == 20
    assert await ids(store, "hot") == ["u"]
    assert await ids(store, "never-saved") == []
    assert await store.sessions() == ["both", "hot", "new", "old"]
    report = await store.verify()
    assert not report.is_good
    assert any(first.name in each.where for each in report.findings)
    assert all(second.name not in each.where for each in report.findings)
    [shard] = (await store.health(archive_files=True)).archive
    assert list(shard.damaged) == [first.name]
    with pytest.raises(foldlog.LogCorrupt, match=first.name):
        await store.rebuild()
    # Others are cleared and erased, and it is not said of the damaged one's sessions.
    assert (await store.erase_session("new")).readable == ()
    await store.clear_session("hot")
    for _ in range(2):
        with pytest.raises(foldlog.LogCorrupt, match=first.name):
            await store.clear_session("both")
    with pytest.raises(foldlog.LogCorrupt, match=first.name):
        await store.erase_session("old")
    await store.save_update(update("again", "new"))
    await store.archive(everything=True)
    assert await ids(store, "new") == ["again"]
    # The file is put back, and all is well.
    (root / first.name).write_bytes(whole)
    await store.erase_session("old")
    await store.clear_session("both")
    reader = await place.open()
    assert await ids(reader, "old") == await ids(reader, "both") == []
    assert (await reader.verify()).is_good
    manifest = await log_of(reader).manifests.current(0, fresh=True)
    assert place.files() == sorted(each.name for each in manifest.segments)


@ends
async def test_a_file_without_its_list_costs_what_it_may_hold(place: Place, root: Path) -> None:
    """And nobody is told that something is erased which may be there."""
    first, _ = await two_files(place)
    for name in (first.name, list_name(first.name)):
        (root / name).unlink()
    store = await place.open()
    assert await store.sessions() == ["both", "hot", "new"]
    assert not (await store.verify()).is_good
    for session in ("both", "old", "new", "hot"):
        with pytest.raises(foldlog.LogCorrupt, match=first.name):
            await ids(store, session)
    with pytest.raises(foldlog.LogCorrupt, match=first.name):
        await store.erase(kinds.updates("hot"))
    assert [page async for page in store._core.log.scan(0, after=first.last)]


async def test_one_that_cannot_be_erased_keeps_no_other_from_it(place: Place, root: Path) -> None:
    first, _ = await two_files(place)
    flip_footer(root / first.name)
    store = await place.open()
    [head] = await store._core.log.heads()
    subjects = [store._core.subject("updates", session) for session in ("old", "new")]
    erasing = log_of(store)._erasing
    async with erasing._busy:  # so that they share a pass
        purges = [
            asyncio.create_task(store._core.log.purge(each, before=head + 1)) for each in subjects
        ]
        while len(erasing._due) < len(purges):  # noqa: ASYNC110 - only a count
            await asyncio.sleep(0)
    found = await asyncio.gather(*purges, return_exceptions=True)
    assert [type(each) for each in found] == [foldlog.LogCorrupt, type(None)]
    assert await ids(store, "new") == []


@pytest.mark.parametrize("damage", ["missing", "zeros"])
async def test_a_file_whose_list_is_damaged_is_read(place: Place, root: Path, damage: str) -> None:
    first, _ = await two_files(place)
    DAMAGES[damage](root / list_name(first.name))
    store = await place.open()
    assert len(await ids(store, "old")) == 20
    assert await store.sessions() == ["both", "hot", "new", "old"]
    assert (await store.erase_session("both")).readable == ()
    assert await ids(store, "both") == []
    assert (await store.verify()).is_good


@ends
async def test_a_scan_yields_all_that_can_be_read_of_a_run_and_goes_on_behind_it(
    place: Place, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "CUT", 1)
    monkeypatch.setattr(parquet, "GROUP", 2_000)
    monkeypatch.setattr(segments, "_WINDOW_BYTES", 2_000)
    store = await place.open(archive_limits=LIMITS._replace(segment_bytes=2**30))
    await fill(store, sessions=3)
    await store.archive(everything=True)
    await fill(store, sessions=1)
    files = (await log_of(store).manifests.current(0, fresh=True)).segments
    assert len(files) > 3
    lost = files[:1] + files[2:3]
    for each in lost:
        (root / each.name).unlink()
    reader = await place.open()
    found, after, errors = list[int](), 0, list[foldlog.LogCorrupt]()
    while True:
        try:
            async for page in reader._core.log.scan(0, after=after):
                found += [each.seq for each in page]
            break
        except foldlog.LogCorrupt as error:
            errors.append(error)
            after = error.sequence
    assert [each.sequence for each in errors] == [lost[0].last]
    assert len(found) == len(set(found)) == 80 - sum(each.records for each in lost)
    [error] = errors
    assert all(each.name in str(error) for each in lost)


@ends
async def test_a_damaged_manifest_costs_its_shard_and_ends(place: Place) -> None:
    store = await place.open(shards=2)
    await fill(store)
    subjects = {f"s{s}": store._core.subject("updates", f"s{s}") for s in range(10)}
    [lost, *_] = (name for name, subject in subjects.items() if subject.shard == 0)
    [kept, *_] = (name for name, subject in subjects.items() if subject.shard == 1)
    await store.archive(everything=True)
    await store.save_update(update("late", lost))
    await overwrite_manifest(store, b"\xc1")
    reader = await place.open(shards=2)
    with pytest.raises(foldlog.LogCorrupt, match=r"\.archive\."):
        await ids(reader, lost)
    assert await ids(reader, kept) == ALL
    assert kept in await reader.sessions()
    report = await reader.verify()
    assert any(".archive." in each.where for each in report.findings)
    with pytest.raises(foldlog.LogCorrupt, match=r"\.archive\."):
        await reader.rebuild()
    with pytest.raises(foldlog.LogCorrupt, match=r"\.archive\."):
        await reader.clear_session(lost)
    assert (await reader.erase_session(kept)).readable == ()


async def overwrite_manifest(store: foldlog.Store, payload: bytes) -> None:
    """As whoever holds the log's credentials can."""
    log = log_of(store).below
    await log.append(
        [
            Append(
                manifest_subject(log, 0),
                (draft(CHANGED, payload, id=hashlib.sha256(payload).hexdigest()),),
            )
        ]
    )


HOSTILE = ["../victims", "/victims", "..", "a/../../victims", "."]


@pytest.mark.parametrize("folder", HOSTILE)
async def test_nothing_outside_the_archive_is_touched(
    place: Place, root: Path, tmp_path: Path, folder: str
) -> None:
    victims = [tmp_path / "victims" / name for name in (f"{0:016d}-x", f".{0:016d}-y")]
    victims[0].parent.mkdir()
    for each in victims:
        each.write_bytes(b"precious")
    store = await place.open()
    await fill(store, each=2)
    await store.archive(everything=True)
    manifest = await log_of(store).manifests.current(0, fresh=True)
    given = str(tmp_path / folder[1:]) if folder.startswith("/") else folder
    outside = replace(manifest.segments[0], name=f"{given}/{victims[0].name}")
    for hostile in (
        replace(manifest.says, folder=given),
        replace(manifest.says, segments=(outside,)),
        replace(manifest.says, folder=given, segments=(outside,)),
    ):
        await overwrite_manifest(store, msgpack.encode(hostile))
        reader = await place.open()
        for call in (reader.archive, lambda r=reader: ids(r, "s1"), reader.rebuild):
            with pytest.raises(foldlog.LogCorrupt, match="not the shard's"):
                await call()
    assert all(each.read_bytes() == b"precious" for each in victims)


async def test_a_link_that_leads_out_of_the_archive_is_not_followed(
    place: Place, root: Path, tmp_path: Path
) -> None:
    first, _ = await two_files(place)
    outside = tmp_path / "outside"
    outside.write_bytes((root / first.name).read_bytes())
    (root / first.name).unlink()
    (root / first.name).symlink_to(outside)
    store = await place.open()
    with pytest.raises(foldlog.LogCorrupt, match="not in the archive"):
        await ids(store, "old")
    before = outside.read_bytes()
    await store.archive(forget=first.name)
    assert not (root / first.name).is_symlink()
    assert outside.read_bytes() == before


async def test_a_strangers_file_stays_and_harms_nobody(place: Place, root: Path) -> None:
    first, _ = await two_files(place)
    strangers = [root / "notes.txt", (root / first.name).with_name("notes.parquet")]
    for each in strangers:
        each.write_bytes(b"mine")
    store = await place.open()
    assert (await store.erase_session("both")).readable == ()
    await store.archive(everything=True)
    assert (await store.verify()).is_good
    assert all(each.read_bytes() == b"mine" for each in strangers)


async def test_a_lost_file_is_given_up(place: Place, root: Path) -> None:
    first, _ = await two_files(place)
    store = await place.open()
    with pytest.raises(foldlog.Misuse, match="is whole"):
        await store.archive(forget=first.name)
    with pytest.raises(foldlog.NotFound, match="no file"):
        await store.archive(forget="another.parquet")
    flip_footer(root / first.name)
    assert (await store.archive(forget=first.name)).forgotten == first.name
    reader = await place.open()
    assert await ids(reader, "old") == []
    assert await ids(reader, "both") == [f"new-{n}" for n in range(20)]
    report = await reader.verify()
    assert report.is_good
    assert [each.where for each in report.accepted] == [first.name]
    assert not (root / first.name).exists()
    await reader.rebuild()
    assert (await reader.erase_session("both")).readable == ()
    [shard] = (await reader.health(archive_files=True)).archive
    assert (list(shard.lost), shard.damaged) == ([first.name], {})


# --- a log has one archive ------------------------------------------------------------------------


async def test_another_archive_is_refused(place: Place, tmp_path: Path) -> None:
    store = await place.open()
    early = await place.open(archive=tmp_path / "other")  # before the first archiving
    await fill(store, each=2)
    await store.archive(everything=True)
    for call in (lambda: ids(early, "s1"), early.archive, lambda: early.erase_session("s1")):
        with pytest.raises(foldlog.ConfigurationError, match="other"):
            await call()
    with pytest.raises(foldlog.ConfigurationError, match=str(tmp_path / "archive")):
        await place.open(archive=tmp_path / "other")
    assert not list((tmp_path / "other").glob("*/*.parquet"))
    assert await ids(await place.open(), "s1") == ["u0", "u1"]


async def test_of_two_places_at_once_one_becomes_the_archive(place: Place, tmp_path: Path) -> None:
    stores = [await place.open(), await place.open(archive=tmp_path / "other")]
    await fill(stores[0], each=2)
    asked = (store.archive(everything=True) for store in stores)
    await asyncio.gather(*asked, return_exceptions=True)
    found = await asyncio.gather(*(ids(each, "s1") for each in stores), return_exceptions=True)
    assert sorted(map(str, map(type, found))) == [
        "<class 'foldlog.errors.ConfigurationError'>",
        "<class 'list'>",
    ]


async def test_a_disk_that_is_mounted_no_more_is_no_archive(place: Place, root: Path) -> None:
    store = await place.open()
    await fill(store, each=2)
    await store.archive(everything=True)
    await asyncio.to_thread(lambda: (root.rename(root.with_name("elsewhere")), root.mkdir()))
    await fill(store, each=2)
    with pytest.raises(foldlog.ConfigurationError, match="none"):
        await store.archive(everything=True)
    assert await asyncio.to_thread(lambda: list(root.iterdir())) == []
    with pytest.raises(foldlog.ConfigurationError, match="none"):
        await place.open()
    reader = await place.open(archive=root.with_name("elsewhere"))  # it has its id
    assert await ids(reader, "s1") == ["u0", "u1"]


async def test_a_store_that_was_open_without_the_archive_notices(place: Place) -> None:
    unaware = await place.open(archive=None)
    unaware.log.manifests.believed = 0.0  # type: ignore[attr-defined]
    store = await place.open()
    await fill(store, each=2)
    assert await ids(unaware, "s1") == ["u0", "u1"]
    await store.archive(everything=True)
    calls: list[Callable[[], Any]] = [
        lambda: ids(unaware, "s1"),
        lambda: ids(unaware, "s2"),
        lambda: unaware.erase_session("s1"),
        lambda: unaware.clear_session("s2"),
        unaware.sessions,
        unaware.verify,
    ]
    for call in calls:
        with pytest.raises(foldlog.ConfigurationError, match="archive="):
            await call()
    assert await ids(await place.open(), "s1") == ["u0", "u1"]


# --- the lease ------------------------------------------------------------------------------------


async def test_a_lease_by_a_clock_that_is_ahead_counts_for_nothing(place: Place) -> None:
    store = await place.open()
    await fill(store, each=2)
    await store.archive(everything=True)
    log, now = log_of(store), time.time()
    for ahead, held in ((86_400.0, 0), (50.0, 1)):
        await store.save_update(update(f"{ahead}", "s1"))
        manifest = await log.manifests.current(0, fresh=True)
        says = replace(manifest.says, holder="another", held_until=now + ahead)
        await log.manifests.change(0, manifest, says)
        moved = await store.archive(everything=True)
        assert (moved.held, moved.records) == (held, 1 - held)


@pytest.mark.parametrize("lost", [0, 1, 2])
@ends
async def test_files_beside_a_damaged_one_are_merged(place: Place, root: Path, lost: int) -> None:
    store = await place.open()
    for number in range(7):
        await store.save_update(update(f"u{number}", f"s{number}", content=TEXT))
        if number == 3:  # the fourth is merged with the first three, where all are whole
            files = (await log_of(store).manifests.current(0, fresh=True)).segments
            flip_footer(root / files[lost].name)
        await store.archive(everything=True)
    left = (await log_of(store).manifests.current(0, fresh=True)).segments
    assert len(left) < 7
    for number in range(7):
        if number == lost:
            with pytest.raises(foldlog.LogCorrupt):
                await ids(store, f"s{number}")
        else:
            assert await ids(store, f"s{number}") == [f"u{number}"]
    assert [each.where for each in (await store.verify()).findings] != []
