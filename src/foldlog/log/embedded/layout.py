"""What lies where in a data directory, and who may look into it."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, Self

from foldlog.errors import ConfigurationError

Durability = Literal["fsync", "relaxed"]
"""``fsync``: an ack means on disk. ``relaxed``: a power loss may cost the last two minutes."""


@dataclass(frozen=True, slots=True)
class Description:
    """How to reach the server of a data directory: the content of ``server.json``."""

    name: str
    port: int
    user: str
    password: str = field(repr=False)
    durability: Durability

    @classmethod
    def decode(cls, text: str) -> Self:
        """Raises ValueError unless `text` is what `encode` returned."""
        try:
            return cls(**json.loads(text))
        except TypeError as error:
            raise ValueError(str(error)) from error

    def encode(self) -> str:
        """Return the description as JSON."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one data directory, an absolute path."""

    directory: Path

    @property
    def config(self) -> Path:
        """The configuration of nats-server, with the password."""
        return self.directory / "nats.conf"

    @property
    def description(self) -> Path:
        """The `Description` of the server; there from before its start until after its end."""
        return self.directory / "server.json"

    @property
    def pid_file(self) -> Path:
        """The pid of nats-server; may be stale after the supervisor was killed."""
        return self.directory / "server.pid"

    @property
    def log(self) -> Path:
        """What supervisor and nats-server print."""
        return self.directory / "server.log"

    @property
    def lifecycle_lock(self) -> Path:
        """See `foldlog.log.embedded.locks` for this one and the next three."""
        return self.directory / "lifecycle.lock"

    @property
    def members_lock(self) -> Path:
        """Held shared by every member."""
        return self.directory / "members.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held by the supervisor."""
        return self.directory / "supervisor.lock"

    @property
    def server_lock(self) -> Path:
        """Held by supervisor and nats-server together."""
        return self.directory / "server.lock"

    @classmethod
    def prepare(cls, path: str | os.PathLike[str]) -> Self:
        """Make the directory `path`, private to this user, unless it is there.

        Raises ConfigurationError where that cannot be.
        """
        directory = Path(path).absolute()
        layout = cls(directory)
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
        """Return what ``server.json`` says, None when there is none that can be read."""
        try:
            return Description.decode(self.description.read_text("utf-8"))
        except (FileNotFoundError, ValueError):
            return None

    def read_pid(self) -> int | None:
        """Return the pid last written for nats-server, None when there is none."""
        try:
            return int(self.pid_file.read_text("ascii"))
        except (FileNotFoundError, ValueError):
            return None


def write_private(path: Path, text: str) -> None:
    """Replace `path` atomically by a file that only this user can read."""
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)  # one left behind might be open to others
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)
