"""A log that comes back without what it held: from an older backup, while its stores are open.

They have read and written what is gone. Nobody may append to that unknowingly.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Literal

import pytest

import foldlog
from foldlog import AppendUnknown, LogRewound
from foldlog.log.embedded.binary import find_binary
from foldlog.opening import Connecting
from foldlog.telemetry.stores import jetstream
from tests.processes.test_revival import end_supervisor
from tests.support.binary import nats_server
from tests.support.build import update
from tests.support.degrading import spool_of
from tests.support.server import LocalServer

pytestmark = pytest.mark.skipif(nats_server() is None, reason="no nats-server is installed here")

PATIENCE = 60.0


class Backup:
    """Older data of an embedded server, which `restore` puts in the place of what is there."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "data"
        self.binary, self._broken = directory / "server", directory / "broken"
        self._kept = directory / "kept"
        self.binary.symlink_to(find_binary())
        self._broken.write_text("#!/bin/sh\nexit 3\n")
        self._broken.chmod(0o700)

    def open(self, on_error: Literal["raise", "degrade"] = "raise") -> Connecting:
        binary = str(self.binary)
        return foldlog.connect(
            path=self.path, server_binary=binary, timeout=PATIENCE, on_error=on_error
        )

    def take(self) -> None:
        """Keep what a server that does not run has stored."""
        shutil.copytree(self.path / "jetstream", self._kept)

    async def restore(self, store: foldlog.Store) -> None:
        """Have the server go, and come back with what was kept."""
        os.replace(self._broken, self.binary)  # nobody revives it meanwhile
        await end_supervisor(store, self.path)
        shutil.rmtree(self.path / "jetstream")
        shutil.copytree(self._kept, self.path / "jetstream")
        self.binary.unlink()
        self.binary.symlink_to(find_binary())


async def save(store: foldlog.Store, *numbers: int) -> None:
    for number in numbers:
        await store.save_update(update(f"{number}"))


async def ids(store: foldlog.Store) -> list[str]:
    return [u.update_id for u in await store.list_updates("session", consistency="strong")]


async def test_a_store_that_only_writes_is_told_before_it_appends(tmp_path: Path) -> None:
    backup = Backup(tmp_path)
    async with backup.open() as store:
        await save(store, 0, 1, 2)
    backup.take()
    async with backup.open() as store:
        await save(store, 3, 4)
        await backup.restore(store)
        for _ in range(2):
            with pytest.raises(LogRewound) as rewound:
                await save(store, 5)
            assert rewound.value.stream == "FOLDLOG_default_0"
            assert rewound.value.sequence == 5
        with pytest.raises(LogRewound):
            await ids(store)
        (stream,) = (await store.health()).streams
        assert stream.last_seq == 3
        # Whoever opens it now is told, too, although all marks are those of the backup.
        async with backup.open() as other:
            with pytest.raises(LogRewound) as rewound:
                await ids(other)
            assert rewound.value.sequence == 5
        await store.rebuild()  # accepts it
        await save(store, 5)
        assert await ids(store) == ["0", "1", "2", "5"]


async def test_what_a_store_has_only_seen_counts_as_well(tmp_path: Path) -> None:
    backup = Backup(tmp_path)
    async with backup.open() as store:
        await save(store, 0)
    backup.take()
    async with backup.open() as store:
        await save(store, 1, 2)
    async with backup.open() as store:
        await backup.restore(store)
        with pytest.raises(LogRewound) as rewound:
            await save(store, 3)
        assert rewound.value.sequence == 3


async def test_a_degrading_store_keeps_what_it_is_given_until_the_log_is_accepted(
    tmp_path: Path,
) -> None:
    backup = Backup(tmp_path)
    async with backup.open() as store:
        await save(store, 0)
    backup.take()
    async with backup.open("degrade") as store:
        await save(store, 1)
        await backup.restore(store)
        await save(store, 2, 3)
        assert spool_of(store).waiting == 2
        await store.rebuild()
        while spool_of(store).waiting:
            async with asyncio.timeout(PATIENCE):
                await store.load_planner_state("none")  # which what waits comes before
        assert await ids(store) == ["0", "2", "3"]


async def test_a_server_that_comes_back_whole_takes_what_it_is_given(tmp_path: Path) -> None:
    path = tmp_path / "server"
    async with LocalServer(path) as server, foldlog.connect(server.url, timeout=PATIENCE) as store:
        for n in range(3):
            await save(store, n)
            await server.kill()
            await server.start()
        await save(store, 3)
        assert await ids(store) == ["0", "1", "2", "3"]


async def test_the_outcome_of_what_was_under_way_is_not_known(tmp_path: Path) -> None:
    path, kept = tmp_path / "server", tmp_path / "kept"
    async with LocalServer(path) as server, foldlog.connect(server.url, timeout=PATIENCE) as store:
        await save(store, 0)
        await server.kill()
        shutil.copytree(path / "jetstream", kept)
        await server.start()
        await save(store, 1)
        server.freeze()
        saving = asyncio.create_task(save(store, 2))
        await sent(store, saving)
        await server.kill()
        shutil.rmtree(path / "jetstream")
        shutil.copytree(kept, path / "jetstream")
        await server.start()
        with pytest.raises(AppendUnknown, match="no longer holds sequence 2"):
            await saving
        with pytest.raises(LogRewound):
            await save(store, 3)
        await store.rebuild()
        assert await ids(store) == ["0"]


async def sent(store: foldlog.Store, saving: asyncio.Task[None]) -> None:
    """Until a save has left this process."""
    log = jetstream(store)
    assert log is not None
    statistics = log.connection._client.stats
    before = statistics["out_msgs"]
    while statistics["out_msgs"] == before and not saving.done():  # noqa: ASYNC110 - only a count
        await asyncio.sleep(0)
