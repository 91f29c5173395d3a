"""What `foldlog.connect` was given about its log: checked, and completed from the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from foldlog.errors import ConfigurationError
from foldlog.store.options import StoreOptions
from foldlog.store.spool import Place
from foldlog.subjects import Namespace

URL_VARIABLE: Final = "FOLDLOG_URL"
PATH_VARIABLE: Final = "FOLDLOG_PATH"
DEFAULT_PATH: Final = ".foldlog"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The arguments of `foldlog.connect`, under the same names; `options` are the store's."""

    url: str | None
    path: str | os.PathLike[str] | None
    namespace: str
    shards: int
    durability: Literal["fsync", "relaxed"]
    timeout: float
    options: StoreOptions
    spool: str | os.PathLike[str] | None
    spool_bytes: int
    replicas: int | None
    server_binary: str | None
    nats_options: dict[str, Any]

    @property
    def degrades(self) -> bool:
        """Whether the store's methods return safe defaults where they would raise."""
        return self.options.on_error == "degrade"

    @property
    def server_url(self) -> str | None:
        """Where the server is; None for the embedded one."""
        from_environment = self.url is None and self.path is None
        return (os.environ.get(URL_VARIABLE) if from_environment else self.url) or None

    @property
    def data(self) -> Path:
        """The data directory."""
        return Path(self.path or os.environ.get(PATH_VARIABLE) or DEFAULT_PATH)

    @property
    def place(self) -> Place:
        """Where the spool is."""
        url = self.server_url
        if url is None:
            return Place.of_embedded(self.spool, self.data, self.namespace)
        return Place.of_server(self.spool, self.data, self.namespace, url, self.nats_options)

    def check(self) -> None:
        """Raise what is wrong with them, without asking a server.

        Raises:
            ConfigurationError, InvalidId: as their message says.
        """
        if self.durability not in ("fsync", "relaxed"):
            raise ConfigurationError(f'durability is "fsync" or "relaxed", not {self.durability!r}')
        timeout, size = self.timeout, self.spool_bytes
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise ConfigurationError(f"timeout is a positive number of seconds, not {timeout!r}")
        if self.url is not None and (not isinstance(self.url, str) or not self.url):
            raise ConfigurationError(f"a url is a string that is not empty, not {self.url!r:.80}")
        if self.path is not None and not _is_path(self.path):
            raise ConfigurationError(f"a path names a directory; {self.path!r:.80} does not")
        if self.spool is not None and not _is_path(self.spool):
            raise ConfigurationError(f"spool names a directory; {self.spool!r:.80} does not")
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise ConfigurationError(f"spool_bytes is a number of bytes, not {size!r:.80}")
        if self.url is not None and self.path is not None:
            raise ConfigurationError("a url and a path: the path belongs to the embedded server")
        checked_namespace(self.namespace, self.shards)


def checked_namespace(name: str, shards: int) -> Namespace:
    """Make a namespace. Raises ConfigurationError, InvalidId."""
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= 1024:
        raise ConfigurationError(f"shards is a number from 1 to 1024, not {shards!r}")
    return Namespace(name, shards)


def _is_path(path: object) -> bool:
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    return isinstance(name, str) and name != "" and "\0" not in name
