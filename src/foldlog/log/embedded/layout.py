"""The files of a data directory, their access rights, and the server that they describe."""

from __future__ import annotations

import os
import secrets
import socket
import stat
from pathlib import Path
from typing import Final, Literal, Self

import msgspec

from foldlog.errors import ConfigurationError

HOST: Final = "127.0.0.1"

Durability = Literal["fsync", "relaxed"]
"""``fsync``: an ack means on disk. ``relaxed``: a power loss may cost the last two minutes."""

_MAX_PAYLOAD: Final = 8 * 1024 * 1024
"""Bytes of one message: the largest that nats-server does not warn about."""

_MAX_FILE_STORE: Final = 1 << 50
"""Bytes the log may take: in effect no limit. Without one nats-server takes a share of the space
that is free when it starts, and the limit would shrink from start to start as the log grows."""


class Description(msgspec.Struct, frozen=True):
    """How to reach the server of a data directory: the content of ``server.json``."""

    name: str
    port: int
    user: str
    password: str
    durability: Durability

    @classmethod
    def draw(cls, durability: Durability) -> Self:
        """Describe a server to be: a port that is free now, and random credentials."""
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port: int = probe.getsockname()[1]
        name, user = f"foldlog-{secrets.token_hex(8)}", f"foldlog-{secrets.token_hex(4)}"
        return cls(name, port, user, secrets.token_hex(32), durability)

    def succeeded(self, durability: Durability) -> Description:
        """Describe the successor of a server that was killed, to which members reconnect."""
        return msgspec.structs.replace(self, durability="fsync") if durability == "fsync" else self

    def render(self) -> str:
        """Return the ``nats.conf`` of a server that runs inside its data directory."""
        sync = "\n  sync_interval: always" if self.durability == "fsync" else ""
        return f"""\
server_name: "{self.name}"
listen: "{HOST}:{self.port}"
max_payload: {_MAX_PAYLOAD}
jetstream {{
  store_dir: "."
  max_file_store: {_MAX_FILE_STORE}{sync}
}}
authorization {{
  user: "{self.user}"
  password: "{self.password}"
}}
"""

    def __repr__(self) -> str:
        return f"Description({self.name!r}, port={self.port})"  # never the password


class Layout:
    """Absolute paths of the files in a data directory: see docs/reference/configuration.md."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config: Path = directory / "nats.conf"
        self.description: Path = directory / "server.json"
        self.pid_file: Path = directory / "server.pid"
        self.log: Path = directory / "server.log"
        self.lifecycle_lock: Path = directory / "lifecycle.lock"
        self.members_lock: Path = directory / "members.lock"
        self.supervisor_lock: Path = directory / "supervisor.lock"
        self.server_lock: Path = directory / "server.lock"

    @classmethod
    def prepare(cls, path: str | os.PathLike[str]) -> Self:
        """Make the directory `path`, private to this user, unless it exists.

        Raises:
            ConfigurationError: it cannot be made, or other users can reach what is in it.
        """
        layout = cls(Path(path).absolute())
        directory = layout.directory
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = directory.stat()
            if status.st_uid != os.geteuid():
                raise ConfigurationError(
                    f"{directory} belongs to another user; use a data directory of your own"
                )
            if stat.S_IMODE(status.st_mode) & 0o077:
                if not layout.lifecycle_lock.exists() and any(directory.iterdir()):
                    raise ConfigurationError(
                        f"{directory} is open to other users and holds files that are not "
                        "foldlog's; give foldlog a directory of its own, or close it: chmod 700"
                    )
                directory.chmod(0o700)
        except OSError as error:
            raise ConfigurationError(
                f"{directory} cannot be used as a data directory: {error.strerror}"
            ) from error
        return layout

    @property
    def exists(self) -> bool:
        """Whether a store was ever opened on this directory."""
        return self.lifecycle_lock.exists()

    def read_description(self) -> Description | None:
        """Return what ``server.json`` says; None when there is none or it is damaged."""
        try:
            return msgspec.json.decode(self.description.read_bytes(), type=Description)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def write_description(self, description: Description) -> None:
        """Replace ``nats.conf`` and ``server.json``."""
        _write_private(self.config, description.render().encode())
        _write_private(self.description, msgspec.json.encode(description))

    def read_pid(self) -> int | None:
        """Return the pid last written for nats-server, which may have ended."""
        try:
            return int(self.pid_file.read_text("ascii"))
        except (FileNotFoundError, ValueError):
            return None


def _write_private(path: Path, content: bytes) -> None:
    """Replace `path` atomically by a file that only this user can read."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)  # one left behind might be open to others
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(content)
    new.replace(path)
