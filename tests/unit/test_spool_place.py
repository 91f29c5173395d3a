"""Where a spool is, and whose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog.store.spool import Place
from foldlog.store.spool.file import SpoolFile
from tests.support.flaky import place


def test_a_spool_belongs_to_one_log_and_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FOLDLOG_SPOOL", raising=False)
    data = tmp_path / "data"

    def server(url: str, namespace: str = "default", **options: Any) -> Place:
        return Place.of_server(None, data, namespace, url, options)

    embedded = Place.of_embedded(None, data, "default")
    assert embedded.directory == server("nats://a:1").directory == data / "spool"
    assert server("nats://a:1,nats://b:2") == server("nats://b:2,nats://a:1")
    assert server("nats://u:secret@a:1") == server("nats://a:1", user="u", password="other")
    places = [
        embedded,
        server("nats://a:1"),
        server("nats://b:1"),
        server("nats://a:1", "tenant"),
        server("nats://a:1", user="u"),
    ]
    assert len({p.prefix for p in places}) == len(places)
    # A data directory is moved with the spool in it, but one of several may not be mixed up.
    assert Place.of_embedded(None, tmp_path / "moved", "default").prefix == embedded.prefix
    monkeypatch.setenv("FOLDLOG_SPOOL", str(tmp_path / "shared"))
    one, two = (Place.of_embedded(None, tmp_path / name, "default") for name in ("one", "two"))
    assert one.directory == two.directory == tmp_path / "shared"
    assert one.prefix != two.prefix
    assert Place.of_embedded(tmp_path / "given", data, "default").directory == tmp_path / "given"


def test_names_sort_by_age_and_stay_in_their_directory(tmp_path: Path) -> None:
    where = place(tmp_path, Place.of_embedded(None, tmp_path, "../x *.y").prefix)
    made = [SpoolFile.create(*where) for _ in range(3)]
    assert [file.path for file in made] == where.files()
    assert {file.path.parent for file in made} == {where.directory}
    for file in made:
        file.release()


@pytest.mark.parametrize(
    "options", [{"spool": ""}, {"spool": 1}, {"spool_bytes": -1}, {"spool_bytes": True}]
)
async def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(foldlog.ConfigurationError, match="spool"):
        await foldlog.connect("nats://127.0.0.1:9", **options)
