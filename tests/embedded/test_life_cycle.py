"""From the first member to the last: start, join, share, restart, stop."""

# ruff: noqa: ASYNC240 - a test may look at small local files while nothing else runs

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import stat
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client

from foldlog.errors import ServerStartFailed
from foldlog.log.embedded import EmbeddedServer
from tests.embedded.conftest import (
    StartMember,
    command_line,
    ended,
    kill,
    parent,
    pid_of,
    processes,
)


async def connect(server: EmbeddedServer) -> Client:
    return await nats.connect(
        server.url, user=server.user, password=server.password, allow_reconnect=False
    )


async def log_in(port: int, **credentials: str) -> bytes:
    """Return the server's answer to a first ping under these credentials."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await reader.readline()
    options = {"verbose": False, "pedantic": False} | credentials
    writer.write(f"CONNECT {json.dumps(options)}\r\nPING\r\n".encode())
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return answer


async def publish(server: EmbeddedServer, *payloads: bytes) -> None:
    client = await connect(server)
    js = client.jetstream()
    await js.add_stream(name="log", subjects=["s.>"])
    for payload in payloads:
        await js.publish("s.a", payload)
    await client.close()


async def stored(server: EmbeddedServer) -> list[bytes]:
    client = await connect(server)
    js = client.jetstream()
    last = (await js.stream_info("log")).state.last_seq
    payloads = [(await js.get_msg("log", seq)).data or b"" for seq in range(1, last + 1)]
    await client.close()
    return payloads


async def test_starts_serves_and_stops(directory: Path) -> None:
    server = await EmbeddedServer.join(directory)
    assert server.path == directory
    assert server.url == f"nats://127.0.0.1:{server.port}"
    assert pid_of(server) in processes(directory)
    await publish(server, b"one")
    assert await stored(server) == [b"one"]

    await server.leave()

    assert processes(directory) == set()
    assert server.pid is None
    await server.leave()


async def test_keeps_the_log_from_one_run_to_the_next(directory: Path) -> None:
    first = await EmbeddedServer.join(directory)
    await publish(first, b"one")
    await first.leave()
    second = await EmbeddedServer.join(directory)
    assert await stored(second) == [b"one"]
    assert second.password != first.password
    await second.leave()


async def test_a_relative_directory_is_this_process_s(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory.parent)
    server = await EmbeddedServer.join(Path(directory.name))
    assert server.path == directory
    await server.leave()


async def test_members_share_one_server(
    server: EmbeddedServer, start_member: StartMember, directory: Path
) -> None:
    members = await asyncio.gather(*(start_member() for _ in range(3)))
    again = await EmbeddedServer.join(directory)
    for facts in (member.facts for member in members):
        assert facts == {
            "pid": server.pid,
            "port": server.port,
            "user": server.user,
            "password": server.password,
        }
    assert (again.pid, again.port) == (server.pid, server.port)
    await again.leave()
    await server.leave()
    for member in members[1:]:
        await member.leave()
    survivor = await EmbeddedServer.join(directory)
    assert survivor.pid == members[0].facts["pid"]
    await survivor.leave()
    await members[0].leave()
    assert processes(directory) == set()


async def test_concurrent_first_joins_start_one_server(
    start_member: StartMember, directory: Path
) -> None:
    members = await asyncio.gather(*(start_member() for _ in range(4)))
    assert len({member.facts["pid"] for member in members}) == 1
    log = (directory / "server.log").read_text()
    assert log.count("Server is ready") == 1
    await asyncio.gather(*(member.leave() for member in members))
    assert processes(directory) == set()


async def test_a_killed_starter_takes_nothing_with_it(
    start_member: StartMember, directory: Path
) -> None:
    starter = await start_member()
    server = await EmbeddedServer.join(directory)
    await publish(server, b"one")

    await starter.kill()

    assert await stored(server) == [b"one"]
    assert server.pid == starter.facts["pid"]
    third = await EmbeddedServer.join(directory)
    assert third.pid == server.pid
    await third.leave()
    await server.leave()
    assert processes(directory) == set()


async def test_the_only_member_killed_leaves_no_orphan(
    start_member: StartMember, directory: Path
) -> None:
    member = await start_member()
    running = processes(directory)
    assert member.facts["pid"] in running
    await member.kill()
    await ended(*running)
    assert not (directory / "server.json").exists()


async def test_a_killed_server_is_restarted_where_it_was(
    server: EmbeddedServer, directory: Path
) -> None:
    await publish(server, b"one")
    for _ in range(2):
        killed = pid_of(server)
        await kill(killed)
        other = await EmbeddedServer.join(directory)  # waits for the restart
        assert (other.port, other.password) == (server.port, server.password)
        assert other.pid == pid_of(server) != killed
        await other.leave()
    assert await stored(server) == [b"one"]
    assert f"nats-server ended with {-signal.SIGKILL}" in server.log_file.read_text()


async def test_leaving_while_the_server_is_being_restarted(directory: Path) -> None:
    server = await EmbeddedServer.join(directory)
    os.kill(pid_of(server), signal.SIGKILL)
    await server.leave()
    assert processes(directory) == set()
    assert "did not stop" not in server.log_file.read_text()


async def test_a_killed_supervisor_is_replaced_by_the_next_join(
    server: EmbeddedServer, directory: Path
) -> None:
    await publish(server, b"one")
    running = processes(directory)
    await kill(parent(pid_of(server)))
    await ended(*running)  # Linux kills the server with it
    assert server.pid is None

    successor = await EmbeddedServer.join(directory)

    # Members of before can reconnect: nothing they know has changed.
    assert successor.port == server.port
    assert await stored(server) == [b"one"]
    await successor.leave()
    assert pid_of(server) in processes(directory)


async def test_leaving_after_the_supervisor_was_killed(directory: Path) -> None:
    server = await EmbeddedServer.join(directory)
    running = processes(directory)
    await kill(parent(pid_of(server)))
    await server.leave()
    await ended(*running)


async def test_a_supervisor_told_to_end_stops_the_server_in_order(
    server: EmbeddedServer, directory: Path
) -> None:
    running = processes(directory)
    await kill(parent(pid_of(server)), signal.SIGTERM)
    await ended(*running)
    assert "Server Exiting" in server.log_file.read_text()
    assert not (directory / "server.json").exists()


async def test_a_forked_child_is_no_member(start_member: StartMember, directory: Path) -> None:
    member = await start_member()
    running = processes(directory)
    member.tell("fork")
    await member.leave()  # the child ends only after this
    await ended(*running)


async def test_a_removed_directory_does_not_hold_the_last_member(directory: Path) -> None:
    server = await EmbeddedServer.join(directory)
    running = processes(directory)
    shutil.rmtree(directory)
    assert server.pid is None
    await server.leave()
    await ended(*running)


@pytest.mark.parametrize("made_again", [True, False])
async def test_the_server_of_a_removed_directory_ends_and_its_members_are_told(
    directory: Path, made_again: bool
) -> None:
    server = await EmbeddedServer.join(directory)
    running = processes(directory)
    shutil.rmtree(directory)
    if made_again:
        directory.mkdir(mode=0o700)
    await ended(*running)
    with pytest.raises(ServerStartFailed, match="were removed while this store was open"):
        await server.revive()
    await server.leave()


@pytest.mark.parametrize("keep", [True, False], ids=["emptied", "removed"])
async def test_the_end_of_a_removed_directory_s_server_leaves_the_next_one_alone(
    directory: Path, keep: bool
) -> None:
    removed = await EmbeddedServer.join(directory)
    running = processes(directory)
    if keep:
        for path in directory.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    else:
        shutil.rmtree(directory)
    successor = await EmbeddedServer.join(directory)
    await removed.leave()
    await ended(*running)
    third = await EmbeddedServer.join(directory)
    assert third.pid == pid_of(successor) not in running
    await third.leave()
    await successor.leave()


async def test_nobody_else_may_look_in(server: EmbeddedServer, directory: Path) -> None:
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    files = [path for path in directory.iterdir() if path.is_file()]
    assert {"nats.conf", "server.json", "server.log", "members.lock"} <= {f.name for f in files}
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in files} == {
        path.name: oct(0o600) for path in files
    }


async def test_the_password_is_on_no_command_line(server: EmbeddedServer, directory: Path) -> None:
    running = processes(directory)
    assert len(running) == 2
    for pid in running:
        assert server.password not in command_line(pid)
        assert server.password not in Path(f"/proc/{pid}/environ").read_bytes().decode()


async def test_refuses_other_credentials(server: EmbeddedServer) -> None:
    user, password = server.user, server.password
    assert await log_in(server.port, user=user, **{"pass": password}) == b"PONG\r\n"
    for wrong in ({}, {"user": user, "pass": ""}, {"user": "foldlog", "pass": password}):
        assert b"Authorization Violation" in await log_in(server.port, **wrong)


async def test_detached_from_the_terminal_and_the_working_directory(
    server: EmbeddedServer, directory: Path
) -> None:
    for pid in processes(directory):
        assert os.getsid(pid) != os.getsid(0)
        assert Path(f"/proc/{pid}/cwd").readlink() == directory
