"""The files of a data directory, and who may read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal, Self

import msgspec

from foldlog.errors import ConfigurationError

Durability = Literal["fsync", "relaxed"]
"""``fsync``: an ack means on disk. ``relaxed``: a power loss may cost the last two minutes."""


class Description(msgspec.Struct, frozen=True):
    """How to reach the server of a data directory: the content of ``server.json``."""

    name: str
    port: int
    user: str
    password: str
    durability: Durability

    def __repr__(self) -> str:
        return f"Description({self.name!r}, port={self.port})"  # never the password


class Layout:
    """The paths of the files in one data directory. `directory` is absolute.

    ``nats.conf``: the configuration of nats-server, with the password. ``server.json``: the
    `Description` of the server, from before its start until after its end. ``server.pid``: the
    process of nats-server. ``server.log``: what supervisor and nats-server print. The four locks:
    see `foldlog.log.embedded.server`.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = directory / "nats.conf"
        self.description = directory / "server.json"
        self.pid_file = directory / "server.pid"
        self.log = directory / "server.log"
        self.lifecycle_lock = directory / "lifecycle.lock"
        self.members_lock = directory / "members.lock"
        self.supervisor_lock = directory / "supervisor.lock"
        self.server_lock = directory / "server.lock"

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

    def read_description(self) -> Description | None:
        """Return what ``server.json`` says, None when there is none or it is damaged."""
        try:
            return msgspec.json.decode(self.description.read_bytes(), type=Description)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def write_description(self, description: Description) -> None:
        """Replace ``server.json``."""
        write_private(self.description, msgspec.json.encode(description))

    def read_pid(self) -> int | None:
        """Return the pid last written for nats-server, which may have ended; None without one."""
        try:
            return int(self.pid_file.read_text("ascii"))
        except (FileNotFoundError, ValueError):
            return None


def write_private(path: Path, content: bytes) -> None:
    """Replace `path` atomically by a file that only this user can read."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)  # one left behind might be open to others
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(content)
    new.replace(path)
