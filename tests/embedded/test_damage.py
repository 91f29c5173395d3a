"""Files of the embedded server that were damaged while it was down: never served as if whole."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

import foldlog
from foldlog import FoldlogError, LogCorrupt, LogRewound
from tests.support.binary import nats_server
from tests.support.build import update
from tests.support.degrading import spool_of

pytestmark = pytest.mark.skipif(nats_server() is None, reason="no nats-server is installed here")

SESSIONS = [f"session-{n}" for n in range(4)]
EACH = 8


async def saved(path: Path) -> None:
    async with foldlog.connect(path=path) as store:
        for n in range(EACH):
            for session in SESSIONS:
                await store.save_update(update(f"{n}", session_id=session))


async def found(path: Path) -> dict[str, list[str] | FoldlogError]:
    """What each session reads as, or what the read raises."""
    read: dict[str, list[str] | FoldlogError] = {}
    async with foldlog.connect(path=path) as store:
        for session in SESSIONS:
            try:
                read[session] = [u.update_id for u in await store.list_updates(session)]
            except FoldlogError as error:
                read[session] = error
    return read


def files(path: Path, name: str) -> list[Path]:
    (stream,) = path.glob("jetstream/**/streams/FOLDLOG_default_0")
    return sorted(stream.glob(f"msgs/{name}"))


def damage(path: Path, kind: str, part: float) -> None:
    (block,) = files(path, "*.blk")
    data = bytearray(block.read_bytes())
    at = int(len(data) * part)
    if kind == "a flipped bit":
        data[at] ^= 4
    elif kind == "cut short":
        del data[at:]
    block.write_bytes(data)


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("kind", ["a flipped bit", "cut short"])
@pytest.mark.parametrize(
    "part",
    [
        0.5,
        pytest.param(0.0, marks=pytest.mark.long),
        pytest.param(0.21, marks=pytest.mark.long),
        pytest.param(0.999, marks=pytest.mark.long),
    ],
)
async def test_what_is_damaged_is_told(
    tmp_path: Path, kind: str, part: float, indexed: bool
) -> None:
    await saved(tmp_path)
    damage(tmp_path, kind, part)
    if not indexed:  # the server then makes its index anew, from what it can read
        for index in files(tmp_path, "index.db"):
            index.unlink()
    read = await found(tmp_path)
    whole = [f"{n}" for n in range(EACH)]
    assert any(isinstance(each, LogCorrupt | LogRewound) for each in read.values())
    assert all(each == whole or isinstance(each, FoldlogError) for each in read.values())


async def test_a_rebuild_accepts_what_the_server_has_kept(tmp_path: Path) -> None:
    await saved(tmp_path)
    damage(tmp_path, "cut short", 0.5)
    whole = [f"{n}" for n in range(EACH)]
    async with foldlog.connect(path=tmp_path) as store:
        (finding,) = (await store.verify()).findings
        assert finding.where == "FOLDLOG_default_0"
        assert finding.sequence == EACH * len(SESSIONS)
    async with foldlog.connect(path=tmp_path) as store:
        await store.rebuild()
        for session in SESSIONS:
            left = [u.update_id for u in await store.list_updates(session)]
            assert left == whole[: len(left)]
    assert not any(isinstance(each, FoldlogError) for each in (await found(tmp_path)).values())


@pytest.mark.parametrize("on_error", ["raise", "degrade"])
async def test_a_log_that_ended_early_takes_no_saves_until_a_rebuild(
    tmp_path: Path, on_error: Literal["raise", "degrade"]
) -> None:
    await saved(tmp_path)
    damage(tmp_path, "cut short", 0.5)
    (index,) = files(tmp_path, "index.db")
    index.unlink()
    async with foldlog.connect(path=tmp_path, on_error=on_error) as store:
        if on_error == "raise":
            with pytest.raises(LogRewound):
                await store.save_update(update("new", session_id="another"))
        else:
            await store.save_update(update("new", session_id="another"))
            assert spool_of(store).waiting == 1
    assert {type(each) for each in (await found(tmp_path)).values()} == {LogRewound}
    async with foldlog.connect(path=tmp_path) as store:
        await store.rebuild()
        await store.save_update(update("newer", session_id="another"))
    assert not any(isinstance(each, FoldlogError) for each in (await found(tmp_path)).values())


async def test_what_was_cleared_is_not_missed(tmp_path: Path) -> None:
    await saved(tmp_path)
    async with foldlog.connect(path=tmp_path) as store:
        await store.clear_session(SESSIONS[0])
        await store.save_update(update("new", session_id=SESSIONS[1]))
    read = await found(tmp_path)
    assert read[SESSIONS[0]] == []
    assert read[SESSIONS[1]] == [*[f"{n}" for n in range(EACH)], "new"]
    async with foldlog.connect(path=tmp_path) as store:
        await store.clear(store.log.namespace.name)
    assert set(map(str, (await found(tmp_path)).values())) == {"[]"}
