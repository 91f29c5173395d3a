"""Where segments stand: a directory, or a bucket with a cache of whole files before it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from foldlog.errors import ConfigurationError, LogUnavailable

_CHUNK = 1024 * 1024


class Place(Protocol):
    """Files by name; a name has one `/` at most. Its methods block."""

    def put(self, name: str, file: Path) -> None:
        """Take a file's content as `name`, whole or not at all, and for good when this returns."""
        ...

    def local(self, name: str) -> Path:
        """Return a file on this machine that has the content.

        Raises:
            FileNotFoundError: there is none, or none any more.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove a file, here and from every cache of this machine; fine if there is none."""
        ...

    def names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder."""
        ...


class Directory:
    """A directory on this machine, or one that several share. Only its owner may read it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def put(self, name: str, file: Path) -> None:
        target = self.root / name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
        try:
            with file.open("rb") as source, beside.open("wb") as copy:
                while chunk := source.read(_CHUNK):
                    copy.write(chunk)
                copy.flush()
                os.fsync(copy.fileno())
            beside.replace(target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        _sync(target.parent)

    def local(self, name: str) -> Path:
        path = self.root / name
        if not path.is_file():
            raise FileNotFoundError(name)
        return path

    def delete(self, name: str) -> None:
        path = self.root / name
        # Who reads it meanwhile finds it gone, not damaged.
        doomed = path.with_name(f".{path.name.lstrip('.')}")
        with suppress(FileNotFoundError):
            path.rename(doomed)
            _overwrite(doomed)
            doomed.unlink()
            _sync(path.parent)

    def names(self, folder: str) -> list[str]:
        directory = self.root / folder
        if not directory.is_dir():
            return []
        return [f"{folder}/{each.name}" for each in directory.iterdir() if each.is_file()]


class Bucket:
    """Object storage by its URL: `s3://`, `gs://`, `az://`. What is read is cached as whole files.

    Args:
        url: the bucket, and a prefix in it.
        cache: a directory of this machine, for this bucket alone.
        max_cached: bytes that the cache may take; what was read longest ago goes first.
        options: what obstore takes for that kind of storage, such as `endpoint`.
    """

    def __init__(self, url: str, cache: Path, max_cached: int, options: dict[str, Any]) -> None:
        try:
            from obstore.exceptions import BaseError
            from obstore.store import from_url
        except ModuleNotFoundError as error:
            raise _not_installed(error) from error
        self._failed = BaseError
        self._store = from_url(url, **options)
        self._cache = Directory(cache)
        self._max_cached = max_cached

    def put(self, name: str, file: Path) -> None:
        import obstore

        with self._asked(name):
            obstore.put(self._store, name, file)

    def local(self, name: str) -> Path:
        import obstore

        with suppress(FileNotFoundError):
            path = self._cache.local(name)
            os.utime(path)
            return path
        with self._asked(name):
            found = obstore.get(self._store, name)
            target = self._cache.root / name
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            beside = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
            with beside.open("wb") as copy:
                for chunk in found:
                    copy.write(chunk)
            beside.replace(target)
        self._shrink(target)
        return target

    def delete(self, name: str) -> None:
        import obstore

        self._cache.delete(name)
        with suppress(FileNotFoundError), self._asked(name):
            obstore.delete(self._store, name)

    def names(self, folder: str) -> list[str]:
        import obstore

        with self._asked(folder):
            pages = obstore.list(self._store, prefix=f"{folder}/")
            return [each["path"] for page in pages for each in page]

    @contextmanager
    def _asked(self, name: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except (self._failed, OSError) as error:
            raise LogUnavailable(f"the archive did not answer for {name}: {error}") from error

    def _shrink(self, keep: Path) -> None:
        files = [each for each in self._cache.root.rglob("*.parquet") if each != keep]
        files.sort(key=lambda each: each.stat().st_mtime)
        left = keep.stat().st_size + sum(each.stat().st_size for each in files)
        for each in files:
            if left <= self._max_cached:
                return
            left -= each.stat().st_size
            each.unlink(missing_ok=True)


def place_of(
    where: str | os.PathLike[str], cache: Path, max_cached: int, options: dict[str, Any]
) -> Place:
    """Return the place that a path or a URL names.

    Raises:
        ConfigurationError: obstore is not installed, or knows no such storage.
    """
    name = os.fspath(where)
    if "://" not in name:
        return Directory(Path(name))
    return Bucket(name, cache, max_cached, options)


def _not_installed(error: ModuleNotFoundError) -> ConfigurationError:
    return ConfigurationError(f"{error.name} is not installed: pip install 'foldlog[archive]'")


def _overwrite(path: Path) -> None:
    """Have no block of the disk hold the bytes, where the file system writes in place."""
    with path.open("r+b") as file:
        left = path.stat().st_size
        while left > 0:
            left -= file.write(bytes(min(left, _CHUNK)))
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
