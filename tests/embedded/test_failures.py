"""What a join refuses, and that a failed or cancelled one leaves nothing behind."""

# ruff: noqa: ASYNC240 - a test may look at small local files while nothing else runs

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foldlog
from foldlog import locks
from foldlog.errors import ConfigurationError, ServerStartFailed, UnsupportedServer
from foldlog.log.embedded import EmbeddedServer, server, start
from foldlog.log.embedded.binary import find_binary
from foldlog.log.embedded.layout import HOST, Description, Durability, Layout
from tests.embedded.conftest import processes, stopped

WriteProgram = Callable[[str], str]

OLD_SERVER = f"""#!{sys.executable}
import re, socket, sys
conf = open(sys.argv[2]).read()
name = re.search('server_name: (".*")', conf)[1]
listener = socket.create_server(("127.0.0.1", int(re.search('listen: ".*:(.*)"', conf)[1])))
while True:
    client, _ = listener.accept()
    client.sendall(f'INFO {{{{"server_name":{{name}},"version":"2.10.29"}}}}\\r\\n'.encode())
    client.close()
"""

LOCK_HOLDER = """
import fcntl, os, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def program(tmp_path: Path) -> WriteProgram:
    """Writes an executable file with the text given and returns its path."""

    def write(text: str) -> str:
        path = tmp_path / "program"
        path.write_text(text)
        path.chmod(0o700)
        return str(path)

    return write


@pytest.mark.parametrize("named", ["/nowhere/nats-server", "no-such-program", __file__])
async def test_a_binary_that_cannot_be_run(directory: Path, named: str) -> None:
    with pytest.raises(ServerStartFailed, match="not a program that can be run"):
        await EmbeddedServer.join(directory, binary=named)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("#!/bin/sh\necho no good >&2; exit 3\n", "no good"),
        ("#!/bin/sh\nexit 3\n", "nats-server ended with 3"),
        ("not a program", "Exec format error"),
    ],
)
async def test_a_server_that_does_not_start_shows_the_end_of_its_log(
    directory: Path, program: WriteProgram, text: str, reason: str
) -> None:
    with pytest.raises(ServerStartFailed, match=reason):
        await EmbeddedServer.join(directory, binary=program(text))
    assert not (directory / "server.json").exists()

    recovered = await EmbeddedServer.join(directory)
    await recovered.leave()


async def test_a_server_that_is_killed_before_it_was_seen_ready_is_started_again(
    directory: Path, program: WriteProgram
) -> None:
    once = program(f'#!/bin/sh\nif mkdir tried; then kill -9 $$; fi\nexec {find_binary()} "$@"\n')
    joined = await EmbeddedServer.join(directory, binary=once)
    assert joined.pid in processes(directory)
    await joined.leave()


async def test_the_pid_is_written_before_the_server_runs(
    directory: Path, program: WriteProgram
) -> None:
    script = f'#!/bin/sh\ntest "$(cat server.pid)" = $$ || exit 9\nexec {find_binary()} "$@"\n'
    joined = await EmbeddedServer.join(directory, binary=program(script))
    assert joined.pid in processes(directory)
    await joined.leave()


async def test_a_server_that_is_not_ready_in_time(directory: Path, program: WriteProgram) -> None:
    stuck = program("#!/bin/sh\nexec sleep 600\n")
    with pytest.raises(ServerStartFailed, match=r"not ready within 0\.2 s"):
        await EmbeddedServer.join(directory, binary=stuck, timeout=0.2)
    await stopped(directory)
    assert not (directory / "server.json").exists()


async def test_an_old_server_is_refused_and_stopped(directory: Path, program: WriteProgram) -> None:
    with pytest.raises(UnsupportedServer, match=r"2\.10\.29 is too old, 2\.15\.1 is needed"):
        await EmbeddedServer.join(directory, binary=program(OLD_SERVER))
    await stopped(directory)
    assert not (directory / "server.json").exists()


async def test_a_store_that_is_refused_leaves_the_server_it_has_started(directory: Path) -> None:
    no_hook: Any = 5
    with pytest.raises(ConfigurationError, match="redact is a function"):
        await foldlog.connect(path=directory, redact=no_hook)
    await stopped(directory)
    assert not (directory / "server.json").exists()


async def test_a_cancelled_join_leaves_nothing(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = asyncio.Event()
    before = set(locks._open_locks)

    async def wait_for_ever(*args: object) -> None:
        waiting.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(server, "wait_until_ready", wait_for_ever)
        join = asyncio.create_task(EmbeddedServer.join(directory))
        await waiting.wait()
        join.cancel()
        with pytest.raises(asyncio.CancelledError):
            await join
    assert locks._open_locks == before
    await stopped(directory)

    joined = await EmbeddedServer.join(directory)
    await joined.leave()


async def test_another_port_is_tried_when_the_first_is_taken(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((HOST, 0)) as foreign:
        taken: int = foreign.getsockname()[1]
        ports = [taken]

        def draw(durability: Durability) -> Description:
            found = real_draw(durability)
            return Description(
                found.name, ports.pop() if ports else found.port, "user", "secret", durability
            )

        real_draw = Description.draw
        monkeypatch.setattr(Description, "draw", draw)
        joined = await EmbeddedServer.join(directory)
        assert ports == []
        assert joined.port != taken
        await joined.leave()


async def test_a_joiner_turns_to_another_server_that_took_the_place(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 1. A supervisor is at work on a server that never comes up.
    layout = Layout.prepare(directory)
    lost = Description.draw("fsync")
    layout.write_description(lost)
    supervisor = locks.LockFile(layout.supervisor_lock)
    assert supervisor.try_lock()
    waiting = asyncio.Event()

    async def greeting_of(port: int) -> dict[str, Any] | None:
        waiting.set()
        return await real_greeting_of(port)

    real_greeting_of = start.greeting_of
    monkeypatch.setattr(start, "greeting_of", greeting_of)
    joining = asyncio.create_task(EmbeddedServer.join(directory))
    await waiting.wait()

    # 2. It ends like a supervisor does, and another one begins at once.
    layout.description.unlink()
    supervisor.release()
    winner = await EmbeddedServer.join(directory)

    joined = await joining
    assert (joined.port, joined.pid) == (winner.port, winner.pid)
    await joined.leave()
    await winner.leave()


async def test_a_server_without_supervisor_is_killed_before_another_starts(
    directory: Path,
) -> None:
    # As where no kernel kills a child with its parent: the lock is held, the pid is written.
    directory.mkdir(mode=0o700)
    orphan = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        LOCK_HOLDER,
        str(directory / "server.lock"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert orphan.stdout is not None
    await orphan.stdout.readline()
    (directory / "server.pid").write_text(f"{orphan.pid}\n")

    joined = await EmbeddedServer.join(directory)

    assert await orphan.wait() == -9
    assert joined.pid in processes(directory)
    await joined.leave()


async def test_fsync_is_refused_where_a_relaxed_server_runs(directory: Path) -> None:
    relaxed = await EmbeddedServer.join(directory, durability="relaxed")
    assert relaxed.durability == "relaxed"
    with pytest.raises(ConfigurationError, match="close every store on this directory first"):
        await EmbeddedServer.join(directory, durability="fsync")
    await relaxed.leave()

    strict = await EmbeddedServer.join(directory)
    stronger = await EmbeddedServer.join(directory, durability="relaxed")
    assert stronger.durability == "fsync"
    await stronger.leave()
    await strict.leave()


async def test_an_unknown_durability_is_refused(directory: Path) -> None:
    with pytest.raises(ConfigurationError, match="not 'eventual'"):
        await EmbeddedServer.join(directory, durability="eventual")  # type: ignore[arg-type]
    assert not directory.exists()


async def test_a_system_without_file_locks(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "fcntl", None)
    with pytest.raises(ConfigurationError, match="pass its URL"):
        await EmbeddedServer.join(directory)


async def test_a_frozen_application(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(ConfigurationError, match="needs a Python interpreter"):
        await EmbeddedServer.join(directory)


async def test_a_file_in_place_of_the_directory(directory: Path) -> None:
    directory.write_text("")
    with pytest.raises(ConfigurationError, match="cannot be used as a data directory"):
        await EmbeddedServer.join(directory)


async def test_a_directory_open_to_others_is_closed_if_it_is_empty(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o755)
    joined = await EmbeddedServer.join(directory)
    assert directory.stat().st_mode & 0o777 == 0o700
    await joined.leave()


async def test_a_directory_with_other_files_that_is_open_to_others(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o755)
    (directory / "letter.txt").write_text("dear")
    with pytest.raises(ConfigurationError, match="holds files that are not"):
        await EmbeddedServer.join(directory)
    assert directory.stat().st_mode & 0o777 == 0o755


async def test_a_directory_of_somebody_else(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory.mkdir(mode=0o700)
    monkeypatch.setattr("os.geteuid", lambda: directory.stat().st_uid + 1)
    with pytest.raises(ConfigurationError, match="belongs to another user"):
        await EmbeddedServer.join(directory)
