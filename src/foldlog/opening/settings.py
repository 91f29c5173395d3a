"""The arguments of `foldlog.connect`, and what is wrong with them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from nats.aio.client import Client

from foldlog.errors import ConfigurationError
from foldlog.log.archive import ArchiveLimits
from foldlog.store.options import Options
from foldlog.store.spool import Place
from foldlog.subjects import Namespace

T = TypeVar("T")

DEFAULT_CACHE_BYTES: Final = 1024 * 1024 * 1024

URL_VARIABLE: Final = "FOLDLOG_URL"
PATH_VARIABLE: Final = "FOLDLOG_PATH"
ARCHIVE_VARIABLE: Final = "FOLDLOG_ARCHIVE"
DEFAULT_PATH: Final = ".foldlog"
SIGN_IN_VARIABLES: Final = {
    "user_credentials": "FOLDLOG_CREDS",
    "user": "FOLDLOG_USER",
    "password": "FOLDLOG_PASSWORD",
}
"""How the environment signs in, by what nats-py calls it; a credentials file before the others."""

_SCHEMES: Final = {"nats", "tls", "ws", "wss"}
"""How the URLs begin of servers that nats-py connects to."""

_NKEYS: Final = {"user_credentials", "nkeys_seed", "nkeys_seed_str"}
_SIGN_IN: Final = {*_NKEYS, "user", "password", "token", "user_jwt_cb", "signature_cb"}

_SET_BY_FOLDLOG: Final = {
    *("self", "servers", "error_cb", "disconnected_cb", "reconnected_cb", "closed_cb")
}
_MEANT: Final = {
    **dict.fromkeys(("data", "data_dir", "data_path", "dir", "directory", "folder"), "path"),
    **dict.fromkeys(("address", "host", "nats_url", "server", "servers", "uri"), "url"),
    **dict.fromkeys(("projections", "models", "record_types"), "kinds"),
    **dict.fromkeys(("degrade", "fail_safe", "raise_errors"), "on_error"),
    "tenant": "namespace",
}
"""Names that other libraries have for an option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The arguments of `foldlog.connect`, under the same names; `options` are the store's."""

    url: str | None
    path: str | os.PathLike[str] | None
    namespace: str
    create: bool
    shards: int
    durability: Literal["fsync", "relaxed"]
    timeout: float
    options: Options
    spool: str | os.PathLike[str] | None
    spool_bytes: int
    replicas: int | None
    server_binary: str | None
    archive: str | os.PathLike[str] | None
    archive_limits: ArchiveLimits
    archive_options: dict[str, Any]
    archive_cache: str | os.PathLike[str] | None
    archive_cache_bytes: int
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
        return Place.of_server(self.spool, self.data, self.namespace, url, self.server_options)

    @property
    def server_options(self) -> dict[str, Any]:
        """The options of nats-py at a URL. The environment signs in if nothing else does."""
        given = self.nats_options
        if given.keys() & _SIGN_IN or "@" in (self.server_url or ""):
            return given
        found = {name: os.environ.get(each) for name, each in SIGN_IN_VARIABLES.items()}
        if found["user_credentials"]:
            return {**given, "user_credentials": found["user_credentials"]}
        return {**given, **{name: value for name, value in found.items() if value}}

    def check(self) -> None:
        """Raise ConfigurationError or InvalidId for what is wrong, without asking a server."""
        if self.durability not in ("fsync", "relaxed"):
            raise ConfigurationError(f'durability is "fsync" or "relaxed", not {self.durability!r}')
        timeout = self.timeout
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise ConfigurationError(f"timeout is a positive number of seconds, not {timeout!r}")
        if self.url is not None and (not isinstance(self.url, str) or not self.url):
            raise ConfigurationError(f"a url is a string that is not empty, not {self.url!r:.80}")
        if self.path is not None and not _is_path(self.path):
            raise ConfigurationError(f"a path names a directory; {self.path!r:.80} does not")
        if self.spool is not None and not _is_path(self.spool):
            raise ConfigurationError(f"spool names a directory; {self.spool!r:.80} does not")
        for what, size in (
            ("spool_bytes", self.spool_bytes),
            ("archive_cache_bytes", self.archive_cache_bytes),
        ):
            if isinstance(size, bool) or not isinstance(size, int) or size < 0:
                raise ConfigurationError(f"{what} is a number of bytes, not {size!r:.80}")
        if self.archive_cache is not None and not _is_path(self.archive_cache):
            raise ConfigurationError(
                f"archive_cache names a directory; {self.archive_cache!r:.80} does not"
            )
        if self.url is not None and self.path is not None:
            raise ConfigurationError(
                "url= and path=: give one of them; the path belongs to the embedded server"
            )
        checked_namespace(self.namespace, self.shards)
        _check_names(self.nats_options)
        if self.url is not None:
            _check_url(self.url)
        needs_nkeys = self.server_url is not None and self.server_options.keys() & _NKEYS
        if needs_nkeys and find_spec("nkeys") is None:
            raise ConfigurationError(
                "credentials files and nkeys need the package nkeys: pip install 'foldlog[nkeys]'"
            )


def take(whose: type[T], given: Mapping[str, Any]) -> T:
    """Make a dataclass of those arguments, by name, that it has fields for."""
    names: Any = whose
    return whose(**{each.name: given[each.name] for each in fields(names) if each.name in given})


def checked_namespace(name: str, shards: int) -> Namespace:
    """Make a namespace. Raises ConfigurationError, InvalidId."""
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= 1024:
        raise ConfigurationError(f"shards is a number from 1 to 1024, not {shards!r}")
    return Namespace(name, shards)


def _is_path(path: object) -> bool:
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    return isinstance(name, str) and name != "" and "\0" not in name


def _check_names(nats_options: Iterable[str]) -> None:
    """Raise ConfigurationError for an option that neither foldlog nor nats-py has."""
    taken = inspect.signature(Client.connect).parameters.keys() - _SET_BY_FOLDLOG
    for name in nats_options:
        if name in taken:
            continue
        own = {each.name for each in (*fields(Settings), *fields(Options))}
        known = sorted({*taken, *own} - {"options", "nats_options"})
        near = _MEANT.get(name) or next(iter(get_close_matches(name, known, n=1)), None)
        hint = f": did you mean {near}=?" if near else ": help(foldlog.connect) lists them"
        raise ConfigurationError(f"foldlog.connect has no option {name!r:.80}{hint}")


def _check_url(url: str) -> None:
    """Raise ConfigurationError for a URL that is another server's, or the path of a directory."""
    for each in url.split(","):
        scheme, found, _ = each.strip().partition("://")
        if found and scheme.lower() not in _SCHEMES:
            raise ConfigurationError(
                f"{scheme!r:.80} is not how the URL of a NATS server begins, which keeps the log: "
                "nats://host:port"
            )
    if "://" in url or "@" in url:
        return
    if url.startswith(("/", "\\", ".", "~")) or os.sep in url or Path(url).is_dir():
        raise ConfigurationError(
            f"{url!r:.80} is not the URL of a server (nats://host:port); "
            f"a directory is given as path=: foldlog.connect(path={url!r:.80})"
        )
