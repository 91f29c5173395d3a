"""`foldlog project`, as its users run it: again and again, and past a record that is refused."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import foldlog
from tests.cli.conftest import cli
from tests.cli.support import Cli
from tests.projectors.filling import save

__all__ = ["cli"]

PROJECTORS = """
from typing import NamedTuple

import foldlog


class Seen(NamedTuple):
    id: str


@foldlog.table("seen", kinds=["updates"])
def seen(item: foldlog.LogItem) -> Seen:
    if item.id == "u2":
        raise ValueError("two")
    return Seen(item.id)
"""


async def keep(cli: Cli, *numbers: int) -> None:
    async with foldlog.connect(**cli.place) as store:
        await save(store, "one", numbers)


def test_a_module_s_projectors_fill_their_tables(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"rows_of_{tmp_path.name}"
    Path(f"{name}.py").write_text(PROJECTORS)
    project: list[Any] = ["project", name, "--to", "sqlite:///seen.db", "--once"]
    asyncio.run(keep(cli, 0, 1))
    for _ in range(2):  # the second time there is nothing new
        assert cli(*project).stdout == "seen has caught up\n"
    [said] = cli(*project, "--json").records
    assert said["projector"] == "seen"
    assert foldlog.LogPosition.parse(said["position"])
    asyncio.run(keep(cli, 2, 3))
    refused = cli(*project)
    assert (refused.code, refused.stdout) == (1, "")
    assert "ValueError: two" in refused.stderr
    assert "--park seen" in refused.stderr
    assert "there is no projector 'other'" in cli(*project, "--park", "other").stderr
    assert cli(*project, "--park", "seen").stdout == "seen has caught up\n"
    database = sqlite3.connect("seen.db")
    assert database.execute("select id from seen order by id").fetchall() == [
        (f"u{n}",) for n in (0, 1, 3)
    ]
    database.close()
