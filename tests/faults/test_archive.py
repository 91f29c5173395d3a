"""An archiver that is killed: nothing is lost, doubled or left behind, and nothing reads short."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foldlog.log.archive import archiver
from foldlog.log.archive.manifests import Manifests
from foldlog.log.archive.places import Directory
from tests.faults.archiving import PLANTED
from tests.faults.storms.archive import archiver_kills, archiver_steps
from tests.support.disk import Change, Disk, watching

_CONTENT = b"what somebody said" * 10


@pytest.fixture(autouse=True)
def hastened(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the storms change is as before when a test ends."""
    for where, name in ((archiver, "LEASE"), (archiver, "FAN"), (Manifests, "believed")):
        monkeypatch.setattr(where, name, getattr(where, name))


@pytest.mark.long
async def test_an_archiver_that_is_killed_at_a_step(tmp_path: Path) -> None:
    figures = await archiver_steps(tmp_path / "data", stride=6)
    assert figures.broken == []
    assert figures.counts["kills"] > 10


@pytest.mark.long
@pytest.mark.parametrize("planted", PLANTED)
async def test_a_planted_mistake_is_seen(tmp_path: Path, planted: str) -> None:
    figures = await archiver_steps(tmp_path / "data", planted=planted)
    assert any(each.detail.startswith("at once") for each in figures.broken)


@pytest.mark.long
async def test_an_archiver_that_is_killed_under_load(tmp_path: Path) -> None:
    figures = await archiver_kills(tmp_path / "data", 10)
    assert figures.broken == []
    assert figures.counts["kills"] == 10
    assert figures.counts["erasures"] > 3


def crashes(root: Path, work: Callable[[Callable[[str], None]], None]) -> list[tuple[str, Any]]:
    """What may be there after the power failed, after each change; and what was told last."""
    root.mkdir()
    disk, told, found = Disk({}), ["begun"], list[tuple[str, Any]]()

    def note(change: Change) -> None:
        disk.apply(change)
        look()

    def look() -> None:
        found.extend((told[-1], image) for _, image in disk.without_power())

    def tell(what: str) -> None:
        told.append(what)
        look()

    with watching(root, note):
        work(tell)
    return found


def put_and_delete(root: Path, tell: Callable[[str], None]) -> None:
    """A segment comes and goes."""
    directory = Directory(root / "archive")
    draft = directory.draft("folder", ".draft") / "file"
    handle = os.open(draft, os.O_CREAT | os.O_WRONLY)
    os.pwrite(handle, _CONTENT, 0)
    os.close(handle)
    directory.put("folder/name", draft)
    tell("put")
    tell("deleting")
    directory.delete("folder/name")
    tell("deleted")


def misplaced(images: list[tuple[str, Any]]) -> list[str]:
    """What of these images a segment may not be like."""
    found = list[str]()
    for told, image in images:
        content = image.get("archive/folder/name")
        if told in ("begun", "put") and content not in (None, _CONTENT):
            found.append(f"{told}: it is damaged")
        if told == "put" and content is None:
            found.append(f"{told}: it is gone")
        if told == "deleted" and any(_CONTENT[:20] in each for each in image.values()):
            found.append(f"{told}: it is there")
    return found


def test_a_segment_is_there_or_gone_for_good_when_the_power_fails(tmp_path: Path) -> None:
    images = crashes(tmp_path / "disk", lambda tell: put_and_delete(tmp_path / "disk", tell))
    assert {told for told, _ in images} == {"begun", "put", "deleting", "deleted"}
    assert misplaced(images) == []


def test_a_sync_that_is_forgotten_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foldlog.log.archive.places.sync", lambda path: None)
    images = crashes(tmp_path / "disk", lambda tell: put_and_delete(tmp_path / "disk", tell))
    assert any(each.startswith("put") for each in misplaced(images))
