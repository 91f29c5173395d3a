"""Where the spool of a log is: a directory, and a name by which its files are known."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from foldlog.errors import ConfigurationError
from foldlog.locks import require_flock
from foldlog.log.jetstream.credentials import identity, without_secrets
from foldlog.store.spool.file import DAMAGED, REFUSED, SUFFIX, Drafts, erase
from foldlog.subjects import escape

SPOOL_VARIABLE: Final = "FOLDLOG_SPOOL"
DEFAULT_SPOOL_BYTES: Final = 64 * 1024 * 1024

_DIRECTORY: Final = "spool"
"""Of a data directory, also where the log is on a server."""


class Files(NamedTuple):
    """How many files a spool directory holds, of every namespace and log, and their bytes."""

    directory: Path
    waiting: int
    refused: int
    damaged: int
    bytes: int


def directory_in(data: Path) -> Path:
    """The spool directory of a data directory, unless `spool=` names another."""
    given = os.environ.get(SPOOL_VARIABLE)
    return (Path(given) if given else data / _DIRECTORY).absolute()


def look(directory: Path) -> Files:
    """Count what a spool directory holds, and change nothing."""
    counts, size = Counter[str](), 0
    for path in directory.iterdir() if directory.is_dir() else ():
        if path.suffix in (SUFFIX, REFUSED, DAMAGED):
            counts[path.suffix] += 1
            size += path.stat().st_size
    return Files(directory, counts[SUFFIX], counts[REFUSED], counts[DAMAGED], size)


class Place(NamedTuple):
    """The spool files of one log's namespace: `<prefix>.<time made>-<random>.spool`."""

    directory: Path
    prefix: str

    @classmethod
    def of_server(
        cls,
        directory: str | os.PathLike[str] | None,
        data: Path,
        namespace: str,
        url: str,
        options: Mapping[str, Any],
    ) -> Place:
        """The place for a log on a server, known by its hosts and by who signs in.

        So nothing that one account could not append is ever appended in the name of another.
        """
        hosts = sorted(without_secrets(url).split(","))
        return cls._of(directory, data, namespace, "\n".join([*hosts, identity(url, options)]))

    @classmethod
    def of_embedded(
        cls, directory: str | os.PathLike[str] | None, data: Path, namespace: str
    ) -> Place:
        """The place for a log in the data directory `data`, which may be moved with its spool."""
        is_elsewhere = directory or os.environ.get(SPOOL_VARIABLE)
        target = os.fspath(data.absolute()) if is_elsewhere else ""
        return cls._of(directory, data, namespace, target)

    @classmethod
    def _of(
        cls, directory: str | os.PathLike[str] | None, data: Path, namespace: str, target: str
    ) -> Place:
        chosen = Path(directory).absolute() if directory else directory_in(data)
        log = hashlib.blake2b(target.encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return cls(chosen, f"{escape(namespace, 'namespace')}.{log}")

    def files(self) -> list[Path]:
        """The files there are, oldest first."""
        if not self.directory.is_dir():
            return []
        self.check()
        return sorted(self.directory.glob(f"{self.prefix}.*{SUFFIX}"))

    def strangers(self) -> list[Path]:
        """Files of the same namespace that belong to another log."""
        of_namespace = self.prefix.rpartition(".")[0]
        found = self.directory.glob(f"{of_namespace}.*{SUFFIX}")
        return sorted(path for path in found if not path.name.startswith(f"{self.prefix}."))

    def erase(self, is_erased: Callable[[Drafts], bool]) -> int:
        """Remove drafts from the files of processes that have ended; return how many envelopes."""
        self.check()
        found = sorted(self.directory.glob(f"{self.prefix}.*"))
        return sum(erase(p, is_erased) for p in found if p.suffix in (SUFFIX, REFUSED, DAMAGED))

    def check(self) -> None:
        """Refuse a directory into which others could put what is then appended."""
        require_flock()
        try:
            status = self.directory.stat()
        except FileNotFoundError:
            return
        if status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise ConfigurationError(
                f"the spool directory {self.directory} is not this user's alone: chown it, and "
                "chmod go-w"
            )
